const NEWEST_WEIGHT = 0.1;
/** The pace a lane is credited with before its first answer. */
const UNKNOWN_PER_SECOND = 500;
/** The pace assumed for a receiver whose first answer was a failure, once it is well again. */
const HOPED_PER_SECOND = 200;
/** The half-life of the best recent pace. */
const BEST_HALF_LIFE_MS = 30_000;

/** What a reply tells of the pace. */
interface JudgedReply {
  readonly latencyMs: number;
  readonly isSuccess: boolean;
}

/** How fast a lane drains, from the latency of its tries. */
export class LanePace {
  #latencyMs: number | null = null;
  #best = 0;
  #bestAtMs = 0;

  /** Learns from a reply. `concurrency` is how many tries may be in flight from here on; `nowMs` is steady. */
  onReply({ latencyMs, isSuccess }: JudgedReply, concurrency: number, nowMs: number): void {
    const floored = Math.max(0.2, latencyMs);
    const isFirstFailure = this.#latencyMs === null && !isSuccess;
    const best = isFirstFailure ? HOPED_PER_SECOND : this.#bestBy(nowMs);
    this.#latencyMs =
      this.#latencyMs === null
        ? floored
        : this.#latencyMs * (1 - NEWEST_WEIGHT) + floored * NEWEST_WEIGHT;
    this.#best = Math.max(best, this.perSecond(concurrency));
    this.#bestAtMs = nowMs;
  }

  perSecond(concurrency: number): number {
    if (this.#latencyMs === null) return UNKNOWN_PER_SECOND;
    return (concurrency * 1000) / this.#latencyMs;
  }

  /**
   * Returns the pace to hope for once a receiver that is failing now is well again. Tasks put off at its current pace would
   * come back at that pace for minutes, long after it has recovered.
   */
  hopedPerSecond(concurrency: number, nowMs: number): number {
    const best = Math.min(UNKNOWN_PER_SECOND, this.#bestBy(nowMs));
    return Math.max(best, this.perSecond(concurrency));
  }

  #bestBy(nowMs: number): number {
    return this.#best * 0.5 ** ((nowMs - this.#bestAtMs) / BEST_HALF_LIFE_MS);
  }
}
