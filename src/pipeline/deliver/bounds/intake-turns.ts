import type { Clock } from "../../../domain/clock.ts";
import { RingQueue } from "../../../domain/ring-queue.ts";
import type { DeliveryOptions } from "../delivery-options.ts";

type TurnLimits = Pick<DeliveryOptions, "turnItems" | "turnMs">;

/** What one call still has to take; its promise ends with it. */
interface Share {
  /** Takes the next one. @returns false when nothing is left, or nothing more is to be taken */
  readonly takeNext: () => boolean;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/**
 * Takes in many tasks of one event, or many records of one batch, some in each turn of the event loop: webhooks and the deliveries
 * of other events have theirs.
 */
export class IntakeTurns {
  readonly #limits: TurnLimits;
  readonly #clock: Pick<Clock, "monotonic" | "schedule">;
  readonly #shares = new RingQueue<Share>();
  #isScheduled = false;

  constructor(limits: TurnLimits, clock: Pick<Clock, "monotonic" | "schedule">) {
    this.#limits = limits;
    this.#clock = clock;
  }

  /**
   * Calls `take` with each item in order, for as long as `goOn` returns true; those of several calls take turns. Rejects with what
   * `take` throws; it is not called with the rest then.
   */
  each<Item>(
    items: readonly Item[],
    take: (item: Item) => void,
    goOn: () => boolean,
  ): Promise<void> {
    let taken = 0;
    const takeNext = (): boolean => {
      if (taken === items.length || !goOn()) return false;
      take(items[taken++]!);
      return true;
    };
    return new Promise((resolve, reject) => {
      this.#shares.push({ takeNext, resolve, reject });
      this.#scheduleTurn();
    });
  }

  #scheduleTurn(): void {
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#clock.schedule(0, () => this.#takeSome());
  }

  #takeSome(): void {
    this.#isScheduled = false;
    const { turnItems, turnMs } = this.#limits;
    const endMs = this.#clock.monotonic() + turnMs;
    for (let taken = 0; taken < turnItems || this.#clock.monotonic() < endMs; taken += 1) {
      const share = this.#shares.shift();
      if (share === undefined) return;
      if (takeNextOf(share)) this.#shares.push(share);
    }
    if (this.#shares.size > 0) this.#scheduleTurn();
  }
}

/** Takes the share's next one. @returns false once the share has ended */
function takeNextOf({ takeNext, resolve, reject }: Share): boolean {
  try {
    if (takeNext()) return true;
    resolve();
  } catch (error) {
    reject(error);
  }
  return false;
}
