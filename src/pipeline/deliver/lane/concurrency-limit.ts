import { FailureShares } from "./failure-shares.ts";

const START = 4;

/**
 * How many tries of one destination may be in flight: grows by successes, falls to 1 on a timeout, halves on a failure unless as
 * many are known to fail with less in flight. From where more were seen to fail it grows by one per round trip, below by one per success.
 * Times are steady, in ms; `inFlight` is what was when the try started, with it.
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

  /** What it may be soon: where nothing has failed yet it has only not grown so far. */
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

  /** A probe has found it well: what it failed with says nothing of how far it may grow. */
  onRecovered(): void {
    this.#hasFailed = false;
    this.#shares.forget();
  }

  /** A try that still hangs must not keep the first one to another receiver waiting. */
  onReceiverChanged(): void {
    this.#limit = Math.max(this.#limit, Math.min(START, this.#max));
    this.#shares.forget();
  }
}
