import { scheduleLengthMs } from "../../../domain/backoff.ts";
import type { DeliveryTask } from "../../../domain/delivery-task.ts";
import type { DestinationConfig } from "../../../domain/destination.ts";
import type { DeliveryOptions } from "../delivery-options.ts";

/** A run whose schedule is short still gets this long behind an open circuit. */
const SHORTEST_DEADLINE_MS = 60_000;

/** What the receiver has done since its last success. */
export interface Failing {
  readonly sinceMs: number;
  /** The longest wait it asked for. */
  readonly retryAfterMs: number;
}

/**
 * Returns when the circuit breaker may no longer put the run off, ms since the epoch. Only time in which the receiver fails
 * counts: while the relay was down, the destination paused or its limit used up, the schedule stood still.
 */
export function deadlineOf(
  task: DeliveryTask,
  config: DestinationConfig,
  options: DeliveryOptions,
  failing: Failing,
): number {
  const scheduleMs = scheduleLengthMs({
    backoff: config.retryBackoff,
    retryMaxAttempts: config.retryMaxAttempts,
    baseMs: options.retryBaseMs,
    timeoutMs: options.deliveryTimeoutMs,
    retryAfterMs: failing.retryAfterMs,
  });
  return (
    Math.max(task.runStartedAtMs, failing.sinceMs) + Math.max(SHORTEST_DEADLINE_MS, scheduleMs)
  );
}
