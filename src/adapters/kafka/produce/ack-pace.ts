export interface AckPaceOptions {
  readonly maxInFlight: number;
  /** Acks count as slow from here on, until one comes in a `maxInFlight`th of it: then that many in flight take no longer than this. */
  readonly slowFromMs: number;
}

/**
 * Knows how many batches may be in flight. A broker takes up the next request of a connection only once it has answered the one before,
 * hence once the replicas have it: where that takes long (they are far apart, or their disks are slow), more in flight are not written
 * sooner, but each waits for all before it, and its records for longer than an append may take. So then one is in flight, which is as
 * large as they would be together.
 */
export class AckPace {
  readonly #options: AckPaceOptions;
  #isSlow = false;

  constructor(options: AckPaceOptions) {
    this.#options = options;
  }

  get mayBeInFlight(): number {
    return this.#isSlow ? 1 : this.#options.maxInFlight;
  }

  /** How many batches' limits one batch may fill. */
  get batchesInOne(): number {
    return this.#options.maxInFlight / this.mayBeInFlight;
  }

  /** @param afterMs how long after it was sent a batch was confirmed */
  confirmed(afterMs: number): void {
    const { maxInFlight, slowFromMs } = this.#options;
    this.#isSlow = afterMs >= (this.#isSlow ? slowFromMs / maxInFlight : slowFromMs);
  }
}
