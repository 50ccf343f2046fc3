/** Waiting lanes looked at when a place is given back. */
const LOOKED_AT = 16;

/** A lane as the gate sees it. */
export interface GateLane {
  inFlight: number;
  /** Its latest try succeeded. Lanes that are not proven share half of the gate. */
  readonly proven: boolean;
  pump(): void;
}

export interface GateLimits {
  /** Most tries in flight in this process. */
  readonly max: number;
  /** Most of them to one receiver URL: more would wait for a connection while their time runs. */
  readonly maxPerReceiver: number;
}

/**
 * The process-wide caps on tries in flight. Destinations that hang can never take it whole: under pressure
 * (half of the cap is taken) a lane gets its fair share only, and lanes whose latest try did not succeed
 * get together at most half.
 */
export class SendGate {
  readonly #max: number;
  readonly #maxPerReceiver: number;
  readonly #waitingProven = new Set<GateLane>();
  readonly #waitingUnproven = new Set<GateLane>();
  /** By receiver URL. */
  readonly #waitingAt = new Map<string, Set<GateLane>>();
  readonly #inFlightAt = new Map<string, number>();
  readonly #active = new Set<GateLane>();
  #inFlight = 0;
  #unproven = 0;
  readonly #onChange: (inFlight: number) => void;

  constructor({ max, maxPerReceiver }: GateLimits, onChange: (inFlight: number) => void) {
    this.#max = max;
    this.#maxPerReceiver = maxPerReceiver;
    this.#onChange = onChange;
  }

  /** Takes a place, or remembers the lane and pumps it when one may be free. The result gives the place back. */
  tryEnter(lane: GateLane, receiverUrl: string): (() => void) | null {
    if (!this.#mayEnter(lane)) {
      this.#wait(lane);
      return null;
    }
    if (this.isFull(receiverUrl)) {
      this.#waitAt(receiverUrl, lane);
      return null;
    }
    const unproven = !lane.proven;
    this.#changeAt(receiverUrl, 1);
    this.#inFlight += 1;
    if (unproven) this.#unproven += 1;
    lane.inFlight += 1;
    this.#active.add(lane);
    this.#onChange(this.#inFlight);
    return () => this.#leave(lane, receiverUrl, unproven);
  }

  forget(lane: GateLane): void {
    this.#waitingProven.delete(lane);
    this.#waitingUnproven.delete(lane);
    for (const [receiverUrl, waiting] of this.#waitingAt)
      if (waiting.delete(lane) && waiting.size === 0) this.#waitingAt.delete(receiverUrl);
  }

  #mayEnter(lane: GateLane): boolean {
    if (this.#inFlight >= this.#max) return false;
    if (this.#inFlight * 2 >= this.#max && lane.inFlight > 0) {
      const lanes = this.#active.size + this.#waitingProven.size + this.#waitingUnproven.size;
      if (lane.inFlight >= Math.floor(this.#max / lanes)) return false;
    }
    if (lane.proven) return true;
    if (this.#unproven * 2 >= this.#max) return false;
    // The first place of a lane is what lets it prove itself: more than one only while there is plenty.
    return lane.inFlight === 0 || this.#unproven * 4 < this.#max;
  }

  /** No more tries may be in flight to this receiver, whatever room there is else. */
  isFull(receiverUrl: string): boolean {
    return (this.#inFlightAt.get(receiverUrl) ?? 0) >= this.#maxPerReceiver;
  }

  #changeAt(receiverUrl: string, change: 1 | -1): void {
    const count = (this.#inFlightAt.get(receiverUrl) ?? 0) + change;
    if (count === 0) this.#inFlightAt.delete(receiverUrl);
    else this.#inFlightAt.set(receiverUrl, count);
  }

  #leave(lane: GateLane, receiverUrl: string, unproven: boolean): void {
    this.#inFlight -= 1;
    this.#changeAt(receiverUrl, -1);
    if (unproven) this.#unproven -= 1;
    lane.inFlight -= 1;
    if (lane.inFlight === 0) this.#active.delete(lane);
    this.#onChange(this.#inFlight);
    this.#wake();
    this.#wakeAt(receiverUrl);
  }

  /** Waiting lanes that may enter now are pumped; one queues again when it wants more. Proven ones come first. */
  #wake(): void {
    for (const waiting of [this.#waitingProven, this.#waitingUnproven])
      for (const lane of firstOf(waiting)) {
        if (this.#inFlight >= this.#max) return;
        waiting.delete(lane);
        if (this.#mayEnter(lane)) lane.pump();
        else this.#wait(lane);
      }
  }

  /** The same for those that wait for a place at this receiver, in order: one that comes back here has found it full. */
  #wakeAt(receiverUrl: string): void {
    for (const lane of this.#waitingAt.get(receiverUrl) ?? []) {
      if (this.isFull(receiverUrl)) return;
      this.forget(lane);
      lane.pump();
    }
  }

  #waitAt(receiverUrl: string, lane: GateLane): void {
    this.forget(lane);
    const waiting = this.#waitingAt.get(receiverUrl) ?? new Set();
    this.#waitingAt.set(receiverUrl, waiting.add(lane));
  }

  #wait(lane: GateLane): void {
    this.forget(lane);
    (lane.proven ? this.#waitingProven : this.#waitingUnproven).add(lane);
  }
}

/** A copy: a lane that is looked at leaves the set, and may come back to it. */
function firstOf(waiting: ReadonlySet<GateLane>): GateLane[] {
  const first: GateLane[] = [];
  for (const lane of waiting) {
    if (first.length === LOOKED_AT) break;
    first.push(lane);
  }
  return first;
}
