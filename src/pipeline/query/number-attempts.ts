import type { AttemptView } from "../../domain/event-query.ts";
import type { StoredAttempt } from "../../domain/event-store.ts";

/**
 * Counts the tries of each destination from 1, in the order given (oldest first), through replays too.
 * A `rate_limited` row carries the number of the try that it put off.
 */
export function numberAttempts(attempts: readonly StoredAttempt[]): readonly AttemptView[] {
  const tries = new Map<string, number>();
  return attempts.map((attempt) => {
    const before = tries.get(attempt.destinationId) ?? 0;
    if (attempt.status !== "rate_limited") tries.set(attempt.destinationId, before + 1);
    return { ...attempt, attemptNumber: before + 1 };
  });
}
