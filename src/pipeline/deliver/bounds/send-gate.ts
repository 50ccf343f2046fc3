/** How many waiting lanes are checked when a place is given back. */
const MAX_LANES_CHECKED = 16;
/** The share of all places, the last ones to be taken, that only lanes without a try in flight get. */
const FIRST_TRIES_SHARE = 1 / 8;
/**
 * Receivers beyond this number are forgotten when no try is in flight there any more. Others stay: a `Map` of which entries come and go
 * makes new tables all the time ("The collector" in bench/what-was-tried.md).
 */
const MAX_IDLE_RECEIVERS = 10_000;

/** A lane as the gate sees it. */
export interface GateLane {
  inFlight: number;
  /** Whether its latest try succeeded. Unproven lanes share half of the gate. */
  readonly proven: boolean;
  pump(): void;
}

export interface GateLimits {
  /** Maximum tries in flight in this process. */
  readonly max: number;
  /** Maximum tries in flight to one receiver URL: more would wait for a connection while their timeout runs. */
  readonly maxPerReceiver: number;
}

/**
 * The process-wide caps on tries in flight. Hanging destinations can never use them up: under pressure (half of the cap is
 * taken) a lane gets only its fair share and never more than half, the last places are for lanes that have none, and lanes whose
 * latest try did not succeed get at most half together.
 */
export class SendGate {
  readonly #max: number;
  readonly #maxPerReceiver: number;
  readonly #waitingProven = new Set<GateLane>();
  readonly #waitingUnproven = new Set<GateLane>();
  /** By receiver URL. */
  readonly #waitingAt = new Map<string, Set<GateLane>>();
  readonly #inFlightAt = new Map<string, number>();
  #inFlight = 0;
  /** Lanes that have a try in flight. */
  #active = 0;
  #unproven = 0;
  readonly #onChange: (inFlight: number) => void;

  constructor({ max, maxPerReceiver }: GateLimits, onChange: (inFlight: number) => void) {
    this.#max = max;
    this.#maxPerReceiver = maxPerReceiver;
    this.#onChange = onChange;
  }

  /** Takes a place and returns a function that gives it back; or returns null and pumps the lane when a place may be free. */
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
    if (lane.inFlight === 0) this.#active += 1;
    lane.inFlight += 1;
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
      // A lane that waits for more than it has counts twice: busy lanes, which may all hang at once, leave about half to others.
      const lanes = this.#active + this.#waitingProven.size + this.#waitingUnproven.size;
      // Those of a lane that is alone may hang by the time others come.
      if (lane.inFlight >= Math.floor(this.#max / Math.max(2, lanes))) return false;
      if (this.#inFlight >= this.#max - Math.floor(this.#max * FIRST_TRIES_SHARE)) return false;
    }
    if (lane.proven) return true;
    if (this.#unproven * 2 >= this.#max) return false;
    // A lane proves itself in its first place: it gets more than one only while there is plenty of room.
    return lane.inFlight === 0 || this.#unproven * 4 < this.#max;
  }

  /** Returns whether no more tries may be in flight to this receiver, however much room there is otherwise. */
  isFull(receiverUrl: string): boolean {
    return (this.#inFlightAt.get(receiverUrl) ?? 0) >= this.#maxPerReceiver;
  }

  #changeAt(receiverUrl: string, change: 1 | -1): void {
    const count = (this.#inFlightAt.get(receiverUrl) ?? 0) + change;
    if (count === 0 && this.#inFlightAt.size > MAX_IDLE_RECEIVERS)
      this.#inFlightAt.delete(receiverUrl);
    else this.#inFlightAt.set(receiverUrl, count);
  }

  #leave(lane: GateLane, receiverUrl: string, unproven: boolean): void {
    this.#inFlight -= 1;
    this.#changeAt(receiverUrl, -1);
    if (unproven) this.#unproven -= 1;
    lane.inFlight -= 1;
    if (lane.inFlight === 0) this.#active -= 1;
    this.#onChange(this.#inFlight);
    this.#wake();
    this.#wakeAt(receiverUrl);
  }

  /** Pumps the waiting lanes that may enter now, proven ones first; one that wants more queues again. */
  #wake(): void {
    for (const waiting of [this.#waitingProven, this.#waitingUnproven])
      for (const lane of firstOf(waiting)) {
        if (this.#inFlight >= this.#max) return;
        waiting.delete(lane);
        if (this.#mayEnter(lane)) lane.pump();
        else this.#wait(lane);
      }
  }

  /** Pumps the lanes that wait for a place at this receiver, in order. It ends: a lane that queues here again has found it full. */
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

/** Copies the first lanes: each leaves the set when it is checked, and may come back to it. */
function firstOf(waiting: ReadonlySet<GateLane>): GateLane[] {
  const first: GateLane[] = [];
  for (const lane of waiting) {
    if (first.length === MAX_LANES_CHECKED) break;
    first.push(lane);
  }
  return first;
}
