import { FailureShares } from "./failure-shares.ts";

const START = 4;

/**
 * How many tries of one destination may be in flight. Grows on successes, falls to 1 on a timeout, and halves on a failure
 * unless as many are known to fail with fewer in flight. Where more were seen to fail it grows by one per round trip, below
 * that by one per success. Times are steady, in ms; `inFlight` is the number when the try started, itself included.
 */
export class ConcurrencyLimit {
  #limit: number;
  #hasFailed = false;
  readonly #max: number;
  readonly #shares = new FailureShares();

  constructor(max: number) {
    this.#max = max;
    this.#limit = Math.min(START, max);
  }

  get value(): number {
    return Math.floor(this.#limit);
  }

  /** What it may be soon: while nothing has failed yet, it has merely not grown that far. */
  get hoped(): number {
    return this.#hasFailed ? this.value : this.#max;
  }

  onSuccess(inFlight: number, nowMs: number): void {
    this.#shares.note(inFlight, false, nowMs);
    if (this.#limit >= this.#max) return;
    const failMore = this.#shares.failMore(this.value + 1, nowMs);
    this.#limit = Math.min(this.#max, this.#limit + (failMore ? 1 / this.#limit : 1));
  }

  onFailure(inFlight: number, nowMs: number): void {
    this.#hasFailed = true;
    this.#shares.note(inFlight, true, nowMs);
    if (this.#shares.failAnyway(inFlight, nowMs)) return;
    this.#limit = Math.max(1, Math.floor(this.#limit / 2));
  }

  onTimeout(inFlight: number, nowMs: number): void {
    this.#hasFailed = true;
    this.#shares.note(inFlight, true, nowMs);
    this.#limit = 1;
  }

  /** Forgets the failures after a probe has found the receiver well: they say nothing about how far the limit may grow. */
  onRecovered(): void {
    this.#hasFailed = false;
    this.#shares.forget();
  }

  /** Makes room for the first try to another receiver: one that still hangs must not keep it waiting. */
  onReceiverChanged(): void {
    this.#limit = Math.max(this.#limit, Math.min(START, this.#max));
    this.#shares.forget();
  }
}
