import type { DeliveryTask } from "../../../domain/delivery-task.ts";
import type { LaneHost } from "./lane-host.ts";
import type { DeliveryOptions } from "../delivery-options.ts";
import type { GateLane } from "../bounds/send-gate.ts";

/** The most bytes in flight (or one body), as a share of those that may wait in a lane. */
const IN_FLIGHT_SHARE = 1 / 2;

/** Returns how many bodies of this size a lane may have in flight, whatever its concurrency. */
export function maxInFlight(
  body: Uint8Array,
  { laneBytes }: Pick<DeliveryOptions, "laneBytes">,
): number {
  return Math.max(1, Math.floor((laneBytes * IN_FLIGHT_SHARE) / body.length));
}

/** A lane's part of what all lanes of its partition and process share: places, and bytes in flight. */
export class LanePlaces {
  readonly #lane: GateLane;
  readonly #host: Pick<LaneHost, "gate" | "budget" | "options">;
  /** Bytes of the lane's tries in flight. */
  #bytes = 0;

  constructor(lane: GateLane, host: Pick<LaneHost, "gate" | "budget" | "options">) {
    this.#lane = lane;
    this.#host = host;
  }

  /** Takes a place for a try; returns a function that gives it back, or null: then the lane is pumped when there may be one. */
  tryEnter({ event: { body } }: DeliveryTask, receiverUrl: string): (() => void) | null {
    const { gate, budget, options } = this.#host;
    // The lane's own tries pump it when they end.
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
   * Returns whether no more bytes may wait in the lane; for an unproven one, those in flight count as well. While the budget
   * is tight, such a lane gets a large body only if it has nothing else and can send it at once: otherwise the body is better
   * off in a delay tier.
   */
  isFull(queuedBytes: number, more: Uint8Array): boolean {
    const { proven } = this.#lane;
    const bytes = proven ? queuedBytes : queuedBytes + this.#bytes;
    if (bytes > 0 && bytes + more.length > this.#host.options.laneBytes) return true;
    const { inFlight, isTight } = this.#host.budget;
    if (proven || !isTight || !inFlight.isLarge(more)) return false;
    return bytes > 0 || !inFlight.hasRoom(this.#lane, more);
  }

  /** Gives up the lane's turn once nothing waits in it: a body that is not sent from here must not be kept, nor block others. */
  stopWaiting(): void {
    this.#host.budget.inFlight.forget(this.#lane);
  }

  forget(): void {
    this.#host.gate.forget(this.#lane);
    this.stopWaiting();
  }
}
