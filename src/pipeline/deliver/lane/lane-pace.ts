const NEWEST_WEIGHT = 0.1;
/** What a lane is credited with before its first answer. */
const UNKNOWN_PER_SECOND = 500;
/** The pace assumed of a receiver whose first answer was a failure, for when it is well again. */
const HOPED_PER_SECOND = 200;
/** The best pace of late counts for half as much after so long. */
const BEST_HALF_LIFE_MS = 30_000;

interface Answer {
  readonly latencyMs: number;
  readonly isSuccess: boolean;
}

/** How fast a lane drains, from the latency of its tries. */
export class LanePace {
  #latencyMs: number | null = null;
  #best = 0;
  #bestAtMs = 0;

  /** `concurrency`: tries in flight that are allowed from here on. Steady time, ms. */
  onReply({ latencyMs, isSuccess }: Answer, concurrency: number, nowMs: number): void {
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
   * What may be hoped for when a receiver that fails just now is well again. What is put off meanwhile at the pace it has
   * now would come back at that pace for minutes, to a receiver that has long recovered.
   */
  hopedPerSecond(concurrency: number, nowMs: number): number {
    const best = Math.min(UNKNOWN_PER_SECOND, this.#bestBy(nowMs));
    return Math.max(best, this.perSecond(concurrency));
  }

  #bestBy(nowMs: number): number {
    return this.#best * 0.5 ** ((nowMs - this.#bestAtMs) / BEST_HALF_LIFE_MS);
  }
}
