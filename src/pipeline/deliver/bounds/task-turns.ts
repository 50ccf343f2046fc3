import type { Clock } from "../../../domain/clock.ts";
import type { DeliveryTask } from "../../../domain/delivery-task.ts";
import { RingQueue } from "../../../domain/ring-queue.ts";

export interface TurnLimits {
  /** So many tasks are taken in one turn of the event loop, and as many more as `turnMs` is enough for. */
  readonly turnTasks: number;
  readonly turnMs: number;
}

interface Share {
  readonly tasks: readonly DeliveryTask[];
  readonly take: (task: DeliveryTask) => void;
  readonly goOn: () => boolean;
  next: number;
  readonly resolve: () => void;
  readonly reject: (error: unknown) => void;
}

/** Takes in many tasks, some in each turn of the event loop: webhooks and the deliveries of other events have theirs. */
export class TaskTurns {
  readonly #limits: TurnLimits;
  readonly #clock: Pick<Clock, "monotonic" | "schedule">;
  readonly #shares = new RingQueue<Share>();
  #isScheduled = false;

  constructor(limits: TurnLimits, clock: Pick<Clock, "monotonic" | "schedule">) {
    this.#limits = limits;
    this.#clock = clock;
  }

  /**
   * Calls `take` with each task in order, for as long as `goOn` returns true; those of several calls take turns. Rejects with what
   * `take` throws; it is not called with the rest then.
   */
  each(
    tasks: readonly DeliveryTask[],
    take: (task: DeliveryTask) => void,
    goOn: () => boolean,
  ): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#shares.push({ tasks, take, goOn, next: 0, resolve, reject });
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
    const { turnTasks, turnMs } = this.#limits;
    const endMs = this.#clock.monotonic() + turnMs;
    for (let taken = 0; taken < turnTasks || this.#clock.monotonic() < endMs; taken += 1) {
      const share = this.#shares.shift();
      if (share === undefined) return;
      if (takeNext(share)) this.#shares.push(share);
    }
    if (this.#shares.size > 0) this.#scheduleTurn();
  }
}

/** Returns whether more is left to take. */
function takeNext(share: Share): boolean {
  const task = share.goOn() ? share.tasks[share.next] : undefined;
  if (task === undefined) {
    share.resolve();
    return false;
  }
  share.next += 1;
  try {
    share.take(task);
  } catch (error) {
    share.reject(error);
    return false;
  }
  return true;
}
