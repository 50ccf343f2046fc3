/** Number of buckets at which the full ones (idle endpoints) are thrown away. */
const SWEEP_AT_BUCKETS = 10_000;

export interface RateLimiter {
  /**
   * Returns 0 when the request may pass, otherwise the whole seconds until one may. `nowMs` is monotonic, but that of a request
   * that waited may be earlier than the last one.
   */
  take(key: string, nowMs: number): number;
}

interface Bucket {
  tokens: number;
  refilledAtMs: number;
}

/** Makes a token bucket per key: `perSecond` requests each second, and up to that many at once. 0 switches it off. */
export function makeRateLimiter(perSecond: number): RateLimiter {
  const capacity = Math.max(1, perSecond);
  const buckets = new Map<string, Bucket>();
  let sweepAt = SWEEP_AT_BUCKETS;

  function refill(bucket: Bucket, nowMs: number): void {
    if (nowMs <= bucket.refilledAtMs) return;
    const elapsedMs = nowMs - bucket.refilledAtMs;
    bucket.tokens = Math.min(capacity, bucket.tokens + (elapsedMs * perSecond) / 1_000);
    bucket.refilledAtMs = nowMs;
  }

  function sweep(nowMs: number): void {
    for (const [key, bucket] of buckets) {
      refill(bucket, nowMs);
      if (bucket.tokens === capacity) buckets.delete(key);
    }
    sweepAt = Math.max(SWEEP_AT_BUCKETS, buckets.size * 2);
  }

  return {
    take(key, nowMs) {
      if (perSecond <= 0) return 0;
      let bucket = buckets.get(key);
      if (bucket === undefined) {
        if (buckets.size >= sweepAt) sweep(nowMs);
        bucket = { tokens: capacity, refilledAtMs: nowMs };
        buckets.set(key, bucket);
      } else {
        refill(bucket, nowMs);
      }
      if (bucket.tokens >= 1) {
        bucket.tokens -= 1;
        return 0;
      }
      return Math.max(1, Math.ceil((1 - bucket.tokens) / perSecond));
    },
  };
}
