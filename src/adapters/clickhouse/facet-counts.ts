import type { Provider } from "../../domain/enums.ts";
import type { FacetCounts } from "../../domain/event-query.ts";

/** Rows as ClickHouse writes them in JSONEachRow. */
export interface EventFacet {
  readonly provider: Provider;
  readonly signature_valid: boolean;
  readonly count: number;
}
export interface AttemptFacet {
  readonly status: FacetCounts["byAttemptStatus"][number]["value"];
  readonly count: number;
}

/** Adds the counts up by each value, most frequent first. */
export function toFacetCounts(
  events: readonly EventFacet[],
  attempts: readonly AttemptFacet[],
): FacetCounts {
  const providers = new Map<Provider, number>();
  const signatures = new Map<boolean, number>();
  let totalEvents = 0;
  for (const row of events) {
    providers.set(row.provider, (providers.get(row.provider) ?? 0) + row.count);
    signatures.set(row.signature_valid, (signatures.get(row.signature_valid) ?? 0) + row.count);
    totalEvents += row.count;
  }
  return {
    totalEvents,
    byProvider: largestFirst(providers),
    bySignatureValid: largestFirst(signatures),
    byAttemptStatus: largestFirst(new Map(attempts.map((row) => [row.status, row.count]))),
  };
}

/** Puts equal counts in order of their values, so that the same data always reads the same. */
function largestFirst<T>(counts: ReadonlyMap<T, number>): { value: T; count: number }[] {
  return [...counts]
    .map(([value, count]) => ({ value, count }))
    .filter((entry) => entry.count > 0)
    .sort((a, b) => b.count - a.count || (String(a.value) < String(b.value) ? -1 : 1));
}
