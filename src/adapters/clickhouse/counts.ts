import type { Clock } from "../../domain/clock.ts";
import {
  EventStoreError,
  isSearch,
  type EventStoreReader,
  type StoreFilter,
} from "../../domain/event-store.ts";
import { lengthOfAsked } from "./asked-time.ts";
import { DistinctParts, type Readings } from "./distinct-parts.ts";
import { toFacetCounts, type AttemptFacet, type EventFacet } from "./facet-counts.ts";
import { asksForAttempts, attemptCondition, eventCondition, type Condition } from "./filter-sql.ts";
import type { Select } from "./limited-select.ts";
import { SELECT_PARTS, toPart, type Part, type PartJson } from "./parts.ts";
import {
  COUNT_EVENTS,
  countStatement,
  FACETS_OF_ATTEMPTS,
  FACETS_OF_EVENTS,
  repeatedRowsStatement,
  type Count,
} from "./query-sql.ts";
import { isAccessDenied } from "./store-error.ts";

const LONG_TIME_MS = 6 * 3_600_000;

interface Counted {
  readonly orgId: string;
  readonly filter: StoreFilter;
  readonly readings: Readings;
  readonly signal: AbortSignal | undefined;
}
interface RepeatedJson {
  readonly stored: number;
  readonly parts: number;
  readonly different: number;
}

/** Makes the counts of events and facets, which look for rows stored twice only where `DistinctParts` does not rule them out. */
export function makeCounts(
  select: Select,
  clock: Pick<Clock, "now" | "monotonic">,
): Pick<EventStoreReader, "count" | "facets"> {
  const distinctParts = new DistinctParts({
    list: () => listParts(select),
    areDistinct: (table, parts, fromMs) => areDistinct(select, table, parts, fromMs),
    monotonic: () => clock.monotonic(),
  });
  const withReadings = <T>(
    filter: StoreFilter,
    ask: (readings: Readings) => Promise<T>,
  ): Promise<T> =>
    gainsByDistinctParts(filter, clock.now()) ? distinctParts.ask(ask) : ask(new Map());
  return {
    async count(orgId, filter, signal) {
      const [row] = await withReadings(filter, (readings) => {
        const asked = { orgId, filter, readings, signal };
        return countRows<{ count: number }>(select, COUNT_EVENTS, eventCondition, asked);
      });
      return row?.count ?? 0;
    },
    async facets(orgId, filter, signal) {
      const [ofEvents, ofAttempts] = await withReadings(filter, (readings) => {
        const asked = { orgId, filter, readings, signal };
        return Promise.all([
          countRows<EventFacet>(select, FACETS_OF_EVENTS, eventCondition, asked),
          countRows<AttemptFacet>(select, FACETS_OF_ATTEMPTS, attemptCondition, asked),
        ]);
      });
      return toFacetCounts(ofEvents, ofAttempts);
    },
  };
}

function countRows<Row>(
  select: Select,
  count: Count,
  toCondition: (orgId: string, filter: StoreFilter) => Condition,
  { orgId, filter, readings, signal }: Counted,
): Promise<Row[]> {
  const { fromMs = -Infinity, toMs = Infinity, ...scope } = filter;
  const asked = { fromMs, untilMs: toMs };
  const { sql, parameters } = countStatement(count, readings.get(count.table), asked);
  const condition = toCondition(orgId, filter);
  return select<Row>(
    sql
      .replaceAll("%WHERE%", () => condition.sql)
      .replaceAll("%SCOPE%", () => toCondition(orgId, scope).sql),
    { ...condition.parameters, ...parameters },
    count.table === "events" ? { optimize_move_to_prewhere_if_final: 1 } : {},
    signal,
  );
}

/** Returns null if the server does not let this user see its parts. */
async function listParts(select: Select): Promise<readonly Part[] | null> {
  try {
    return (await select<PartJson>(SELECT_PARTS, {})).map(toPart);
  } catch (error) {
    if (error instanceof EventStoreError && isAccessDenied(error)) return null;
    throw error;
  }
}

async function areDistinct(
  select: Select,
  table: Count["table"],
  parts: readonly string[],
  fromMs: number,
): Promise<boolean> {
  const [found] = await select<RepeatedJson>(
    repeatedRowsStatement(table),
    { parts, from_ms: fromMs },
    { max_threads: 1 },
  );
  return found!.parts === parts.length && found!.stored === found!.different;
}

/** Returns whether kept counts help: they are by organization, endpoint, provider and signature; a short time is soon counted anyway. */
function gainsByDistinctParts(filter: StoreFilter, nowMs: number): boolean {
  if (isSearch(filter) || asksForAttempts(filter)) return false;
  return lengthOfAsked(filter, nowMs) >= LONG_TIME_MS;
}
