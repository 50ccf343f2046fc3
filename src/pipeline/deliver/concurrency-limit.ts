const START = 4;

/** How many tries of one destination may be in flight: grows by successes, halves on failures, falls to 1 on a timeout. */
export class ConcurrencyLimit {
  #limit: number;
  #hasFailed = false;
  readonly #max: number;

  constructor(max: number) {
    this.#max = max;
    this.#limit = Math.min(START, max);
  }

  get value(): number {
    return this.#limit;
  }

  /** What it may be soon: where nothing has failed yet it has only not grown so far. */
  get hoped(): number {
    return this.#hasFailed ? this.#limit : this.#max;
  }

  onSuccess(): void {
    this.#limit = Math.min(this.#max, this.#limit + 1);
  }

  onFailure(): void {
    this.#hasFailed = true;
    this.#limit = Math.max(1, Math.floor(this.#limit / 2));
  }

  onTimeout(): void {
    this.#hasFailed = true;
    this.#limit = 1;
  }

  /** A probe has found it well: what it failed with says nothing of how far it may grow. */
  onRecovered(): void {
    this.#hasFailed = false;
  }

  /** A try that still hangs must not keep the first one to another receiver waiting. */
  onReceiverChanged(): void {
    this.#limit = Math.max(this.#limit, Math.min(START, this.#max));
  }
}
