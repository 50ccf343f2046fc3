import type { AttemptView } from "../../domain/event-query.ts";
import type { StoredAttempt } from "../../domain/event-store.ts";
import { visitInTurns } from "../../domain/next-turn.ts";

/**
 * Numbers the tries of each destination from 1, in the order given (oldest first), across replays. A `rate_limited` row carries
 * the number of the try of its own run that it put off; tries of other runs may come before that one. Tries that still wait are
 * numbered in the order in which they are due.
 */
export async function numberAttempts(
  attempts: readonly StoredAttempt[],
): Promise<readonly AttemptView[]> {
  const counts = new Map<string, number>();
  const countOne = (destinationId: string): number => {
    const count = (counts.get(destinationId) ?? 0) + 1;
    counts.set(destinationId, count);
    return count;
  };
  const numbers = new Map<string, number>();
  const ofTries = new Map<StoredAttempt, number>();
  await visitInTurns(attempts, (attempt) => {
    if (attempt.status === "rate_limited") return;
    const number = countOne(attempt.destinationId);
    numbers.set(keyOf(attempt, attempt.tryNumber), number);
    ofTries.set(attempt, number);
  });
  for (const { key, destinationId } of await waitingTries(attempts, numbers))
    numbers.set(key, countOne(destinationId));
  // Newest first, so that a deferral takes the number of the try that it led to: a crash may let the same try be made twice.
  const views: AttemptView[] = [];
  await visitInTurns(attempts.toReversed(), (attempt) => {
    const key = keyOf(attempt, attempt.tryNumber);
    const attemptNumber = ofTries.get(attempt) ?? numbers.get(key)!;
    numbers.set(key, attemptNumber);
    views.push({ ...attempt, attemptNumber });
  });
  return views.reverse();
}

interface WaitingTry {
  readonly key: string;
  readonly destinationId: string;
  readonly dueAtMs: number;
}

/** Returns the tries that rows announce and that are not `made` yet, soonest first. The latest row of a try says when it is due. */
async function waitingTries(
  attempts: readonly StoredAttempt[],
  made: ReadonlyMap<string, unknown>,
): Promise<WaitingTry[]> {
  const waiting = new Map<string, WaitingTry>();
  await visitInTurns(attempts, (attempt) => {
    const { destinationId, status, tryNumber, nextRetryAtMs, attemptedAtMs } = attempt;
    const isPutOff = status === "rate_limited";
    if (!isPutOff && nextRetryAtMs === null) return;
    const key = keyOf(attempt, isPutOff ? tryNumber : tryNumber + 1);
    if (made.has(key)) return;
    waiting.set(key, { key, destinationId, dueAtMs: nextRetryAtMs ?? attemptedAtMs });
  });
  return [...waiting.values()].sort((a, b) => a.dueAtMs - b.dueAtMs);
}

/** Identifies a try among those of one event. */
function keyOf({ destinationId, run }: StoredAttempt, tryNumber: number): string {
  return `${destinationId}|${run}|${tryNumber}`;
}
