const START = 4;

/** How many tries of one destination may be in flight: grows by successes, halves on failures, falls to 1 on a timeout. */
export class ConcurrencyLimit {
  #limit: number;
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
    this.#limit = Math.min(START, max);
  }

  get value(): number {
    return this.#limit;
  }

  onSuccess(): void {
    this.#limit = Math.min(this.#max, this.#limit + 1);
  }

  onFailure(): void {
    this.#limit = Math.max(1, Math.floor(this.#limit / 2));
  }

  onTimeout(): void {
    this.#limit = 1;
  }

  /** A try that still hangs must not keep the first one to another receiver waiting. */
  onReceiverChanged(): void {
    this.#limit = Math.max(this.#limit, Math.min(START, this.#max));
  }
}
