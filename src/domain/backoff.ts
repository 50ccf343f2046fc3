import type { Random } from "./clock.ts";
import type { RetryBackoff } from "./enums.ts";

const MAX_DELAY_MS = 6 * 3_600_000;
const JITTER = 0.2;

/** Returns the delay before retry `retry` (1 is the first) without jitter, at most 6 h, in ms. */
export function plainRetryDelayMs(backoff: RetryBackoff, retry: number, baseMs: number): number {
  return Math.min(MAX_DELAY_MS, unboundedDelayMs(backoff, retry, baseMs));
}

function unboundedDelayMs(backoff: RetryBackoff, retry: number, baseMs: number): number {
  switch (backoff) {
    case "exponential":
      return baseMs * 3 ** (retry - 1);
    case "linear":
      return baseMs * retry;
    case "fixed":
      return baseMs;
    default:
      return backoff satisfies never;
  }
}

/**
 * Returns the delay before retry `retry`, in ms: the plain delay ± 20 %, no shorter than what the receiver asked for
 * (`retryAfterMs`, already bounded), and never over 6 h unless the receiver asked for more.
 */
export function retryDelayMs(input: {
  readonly backoff: RetryBackoff;
  readonly retry: number;
  readonly baseMs: number;
  readonly retryAfterMs: number | null;
  readonly random: Random;
}): number {
  const plain = plainRetryDelayMs(input.backoff, input.retry, input.baseMs);
  const jittered = plain * (1 - JITTER + 2 * JITTER * input.random());
  return Math.round(Math.max(Math.min(MAX_DELAY_MS, jittered), input.retryAfterMs ?? 0));
}

/**
 * Returns the longest time that a whole retry schedule can take, in ms: all delays with full jitter, none shorter than what the
 * receiver asks for, and all tries timing out.
 */
export function scheduleLengthMs(input: {
  readonly backoff: RetryBackoff;
  readonly retryMaxAttempts: number;
  readonly baseMs: number;
  readonly timeoutMs: number;
  readonly retryAfterMs?: number;
}): number {
  const { backoff, retryMaxAttempts, baseMs, timeoutMs, retryAfterMs = 0 } = input;
  let total = timeoutMs;
  for (let retry = 1; retry <= retryMaxAttempts; retry += 1) {
    const delayMs = plainRetryDelayMs(backoff, retry, baseMs) * (1 + JITTER);
    total += Math.max(delayMs, retryAfterMs) + timeoutMs;
  }
  return Math.round(total);
}
