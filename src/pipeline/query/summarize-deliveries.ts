import type { DeliverySummary } from "../../domain/event-query.ts";
import type { StoredAttempt } from "../../domain/event-store.ts";

/**
 * Summarizes by the latest attempt of each destination that is not a deferral (`attempts`: oldest first). A destination counts
 * once it was fanned out to; one that is only known from attempts (its fan-out record is still on its way) counts as well.
 * Returns null for an event that was never fanned out (`destinationIds` null, and no attempts).
 */
export function summarizeDeliveries(
  attempts: readonly StoredAttempt[],
  destinationIds: readonly string[] | null,
): DeliverySummary | null {
  if (destinationIds === null && attempts.length === 0) return null;
  const decisive = new Map<string, StoredAttempt["status"] | null>();
  for (const id of destinationIds ?? []) decisive.set(id, null);
  for (const { destinationId, status } of attempts)
    decisive.set(
      destinationId,
      status === "rate_limited" ? (decisive.get(destinationId) ?? null) : status,
    );
  let delivered = 0;
  let failed = 0;
  for (const status of decisive.values()) {
    if (status === "delivered") delivered += 1;
    if (status === "dead") failed += 1;
  }
  const total = decisive.size;
  return { delivered, failed, pending: total - delivered - failed, total };
}
