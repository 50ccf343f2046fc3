const NEWEST_WEIGHT = 0.1;
/** What a lane is credited with before its first answer. */
const UNKNOWN_PER_SECOND = 500;

/** How fast a lane drains, from the latency of its tries. */
export class LanePace {
  #latencyMs: number | null = null;

  onReply(latencyMs: number): void {
    const floored = Math.max(0.2, latencyMs);
    this.#latencyMs =
      this.#latencyMs === null
        ? floored
        : this.#latencyMs * (1 - NEWEST_WEIGHT) + floored * NEWEST_WEIGHT;
  }

  perSecond(concurrency: number): number {
    if (this.#latencyMs === null) return UNKNOWN_PER_SECOND;
    return (concurrency * 1000) / this.#latencyMs;
  }
}
