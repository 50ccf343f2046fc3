import type { LimitRequests } from "./run-operation.ts";

/** Limit of one API key at one process: far above what an honest client needs, while a runaway one leaves room for others. */
export const REQUESTS_PER_SECOND = 1_000;

/** Number of keys above which the idle ones are dropped. */
const SWEEP_AT_KEYS = 10_000;

/**
 * Limits each key to a second's worth of requests at once and `perSecond` over time (generic cell rate algorithm: kept
 * per key is only the time at which its allowance is whole again).
 */
export function makeLimitRequests(options: {
  readonly perSecond: number;
  /** Monotonic time. */
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
    // A rounding error must not refuse a request.
    if (waitMs > 1e-6) return waitMs / 1_000;
    wholeAtMs.set(keyId, nextMs);
    if (wholeAtMs.size > sweepAt) sweep(nowMs);
    return null;
  };
}
