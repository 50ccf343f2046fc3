import type { DeliveryTask } from "../../../domain/delivery-task.ts";
import type { LaneHost } from "./lane-host.ts";
import type { DeliveryOptions } from "../ports.ts";
import type { GateLane } from "../bounds/send-gate.ts";

/** Of the bytes that may wait in a lane: as many are in flight at most, or one body. */
const IN_FLIGHT_SHARE = 1 / 2;

/** Most bodies like this one that a lane has in flight, whatever its concurrency. */
export function mostInFlight(
  body: Uint8Array,
  { laneBytes }: Pick<DeliveryOptions, "laneBytes">,
): number {
  return Math.max(1, Math.floor((laneBytes * IN_FLIGHT_SHARE) / body.length));
}

/** What a lane has of all that the lanes of its partition and of its process share: places, and bytes in flight. */
export class LanePlaces {
  readonly #lane: GateLane;
  readonly #host: Pick<LaneHost, "gate" | "budget" | "options">;
  /** Of its tries in flight. */
  #bytes = 0;

  constructor(lane: GateLane, host: Pick<LaneHost, "gate" | "budget" | "options">) {
    this.#lane = lane;
    this.#host = host;
  }

  /** Takes a place for a try; the result gives it back. Null: the lane is pumped when there may be one. */
  tryEnter({ event: { body } }: DeliveryTask, receiverUrl: string): (() => void) | null {
    const { gate, budget, options } = this.#host;
    // Its own tries pump it when they end.
    const isFull = this.#bytes + body.length > options.laneBytes * IN_FLIGHT_SHARE;
    if (this.#bytes > 0 && isFull) return null;
    if (!budget.inFlight.hasRoom(this.#lane, body)) {
      budget.inFlight.wait(this.#lane, body);
      return null;
    }
    const leave = gate.tryEnter(this.#lane, receiverUrl);
    if (leave === null) return null;
    const giveBack = budget.inFlight.start(this.#lane, body);
    this.#bytes += body.length;
    return () => {
      this.#bytes -= body.length;
      leave();
      giveBack();
    };
  }

  /**
   * No more bytes shall wait in the lane: what a receiver that hangs has in flight counts as well. While the budget is short such a
   * receiver gets one large body, and only what can be sent at once: all else is better off in a delay tier.
   */
  isFull(queuedBytes: number, more: Uint8Array): boolean {
    const { proven } = this.#lane;
    const bytes = proven ? queuedBytes : queuedBytes + this.#bytes;
    if (bytes > 0 && bytes + more.length > this.#host.options.laneBytes) return true;
    const { inFlight, isTight } = this.#host.budget;
    if (proven || !isTight || !inFlight.isLarge(more)) return false;
    return bytes > 0 || !inFlight.hasRoom(this.#lane, more);
  }

  /** Nothing waits in the lane any more: a body that is not sent from here must not be kept, nor stand before others. */
  stopWaiting(): void {
    this.#host.budget.inFlight.forget(this.#lane);
  }

  forget(): void {
    this.#host.gate.forget(this.#lane);
    this.stopWaiting();
  }
}
