import type { LimitRequests } from "./run-operation.ts";

/** Of one API key, to one process. Far above what an honest client asks; a runaway one leaves room for others. */
export const REQUESTS_PER_SECOND = 1_000;

/** Keys kept before those that are idle are thrown away. */
const SWEEP_AT_KEYS = 10_000;

/**
 * Each key may make a second's worth of requests at once, and `perSecond` over time (generic cell rate algorithm: per key
 * only the time at which its allowance is whole again).
 */
export function makeLimitRequests(options: {
  readonly perSecond: number;
  /** Monotonic. */
  readonly nowMs: () => number;
}): LimitRequests {
  const spacingMs = 1_000 / options.perSecond;
  const burstMs = Math.max(1_000, spacingMs);
  const wholeAtMs = new Map<string, number>();
  let sweepAt = SWEEP_AT_KEYS;

  function sweep(nowMs: number): void {
    for (const [keyId, atMs] of wholeAtMs) if (atMs <= nowMs) wholeAtMs.delete(keyId);
    sweepAt = Math.max(SWEEP_AT_KEYS, wholeAtMs.size * 2);
  }

  return ({ keyId }) => {
    const nowMs = options.nowMs();
    const nextMs = Math.max(nowMs, wholeAtMs.get(keyId) ?? 0) + spacingMs;
    const waitMs = nextMs - nowMs - burstMs;
    // A rounding error is no request too many.
    if (waitMs > 1e-6) return waitMs / 1_000;
    wholeAtMs.set(keyId, nextMs);
    if (wholeAtMs.size > sweepAt) sweep(nowMs);
    return null;
  };
}
