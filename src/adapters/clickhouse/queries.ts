import type { ClickHouseClient } from "@clickhouse/client";
import type { Clock } from "../../domain/clock.ts";
import type { DeliverySummary } from "../../domain/event-query.ts";
import {
  EventStoreError,
  isSearch,
  type EventKey,
  type EventStoreReader,
  type StoreFilter,
} from "../../domain/event-store.ts";
import { askByDriver, type Ask, type QueryParameters, type QuerySettings } from "./ask.ts";
import { lengthOfAsked } from "./asked-time.ts";
import { MOST_CONNECTIONS } from "./connect.ts";
import { DistinctParts, type Readings } from "./distinct-parts.ts";
import { FormerFanouts, type FormerFanoutsState } from "./former-fanouts.ts";
import { asksForAttempts, attemptCondition, eventCondition, type Condition } from "./filter-sql.ts";
import { toFacetCounts, type AttemptFacet, type EventFacet } from "./facet-counts.ts";
import { makePage } from "./page.ts";
import { SELECT_PARTS, toPart, type Part, type PartJson } from "./parts.ts";
import {
  COUNT_EVENTS,
  countStatement,
  FACETS_OF_ATTEMPTS,
  FACETS_OF_EVENTS,
  fannedOutStatement,
  keyParameters,
  keyListParameters,
  longOutcomesStatement,
  MOST_WHOLE_ROWS,
  outcomesStatement,
  repeatedRowsStatement,
  SELECT_EVENT,
  SELECT_EXISTING,
  SELECT_FORMER_FANOUTS,
  summariesStatement,
  type Count,
} from "./query-sql.ts";
import { withReadDeadline } from "./read-deadline.ts";
import { ReadShares } from "./read-shares.ts";
import { toEvent, toOutcomes, type EventJson, type OutcomeJson } from "./rows.ts";
import { makeSmallEvents } from "./small-events.ts";
import { isAccessDenied, toStoreError } from "./store-error.ts";

export interface QueryLimits {
  /** Longest a query may run; beyond it the answer is an error, never a partial result. */
  readonly maxSeconds: number;
  readonly maxMemoryBytes: number;
  /** Questions that the store answers at once, shared among the organizations. */
  readonly mostAtOnce: number;
}

/** Kept for questions by key, which take milliseconds: however many searches are running, these never wait for one to end. */
const PLACES_OF_LOOKUPS = 1;
const SYSTEM_TIME = { now: () => Date.now(), monotonic: () => performance.now() };
const DEFAULT_LIMITS: QueryLimits = {
  maxSeconds: 10,
  maxMemoryBytes: 2_000_000_000,
  mostAtOnce: MOST_CONNECTIONS,
};

/**
 * Equal keys mean equal events, so rows may be dropped before duplicates are collapsed. Not so for attempts, whose status
 * may differ between duplicates: their statements filter after FINAL themselves.
 */
const READ_SETTINGS = {
  readonly: "2",
  do_not_merge_across_partitions_select_final: 1,
  use_skip_indexes_if_final: 1,
  use_skip_indexes_if_final_exact_mode: 0,
  max_result_rows: "1000000",
  result_overflow_mode: "throw",
  timeout_overflow_mode: "throw",
  distributed_product_mode: "local",
  cancel_http_readonly_queries_on_client_close: 1,
} as const;

/**
 * @param lookUpBy how to ask for rows by key; by default, as for everything else
 * @throws {EventStoreError} from every call
 */
export function makeEventStoreReader(
  client: ClickHouseClient,
  given: Partial<QueryLimits> = {},
  clock: Pick<Clock, "now" | "monotonic"> = SYSTEM_TIME,
  lookUpBy: Ask = askByDriver(client),
): EventStoreReader {
  const limits = { ...DEFAULT_LIMITS, ...given };
  const { mostAtOnce } = limits;
  const select = makeSelect(
    askByDriver(client),
    new ReadShares(Math.max(1, mostAtOnce - PLACES_OF_LOOKUPS)),
    limits,
  );
  const lookUp = makeSelect(lookUpBy, new ReadShares(mostAtOnce), limits);
  /** Returns null if the server does not let this user see its parts. */
  const list = async (): Promise<readonly Part[] | null> => {
    try {
      return (await select<PartJson>(SELECT_PARTS, {})).map(toPart);
    } catch (error) {
      if (error instanceof EventStoreError && isAccessDenied(error)) return null;
      throw error;
    }
  };
  const areDistinct = async (
    table: Count["table"],
    parts: readonly string[],
    fromMs: number,
  ): Promise<boolean> => {
    const [found] = await select<RepeatedJson>(
      repeatedRowsStatement(table),
      { parts, from_ms: fromMs },
      { max_threads: 1 },
    );
    return found!.parts === parts.length && found!.stored === found!.different;
  };
  const distinctParts = new DistinctParts({
    list,
    areDistinct,
    monotonic: () => clock.monotonic(),
  });
  const formerFanouts = new FormerFanouts({
    ask: async () => {
      const [found] = await lookUp<FormerFanoutsState>(SELECT_FORMER_FANOUTS, {});
      return found!;
    },
    monotonic: () => clock.monotonic(),
  });
  const hasFormer = (keys: readonly EventKey[]): Promise<boolean> =>
    formerFanouts.mayHave(Math.min(...keys.map(({ receivedAtMs }) => receivedAtMs)));
  const outcomes: EventStoreReader["outcomes"] = async (orgId, key) => {
    const withFormer = await hasFormer([key]);
    const ask = (statement: string): Promise<OutcomeJson[]> =>
      lookUp<OutcomeJson>(statement, keyParameters(orgId, key));
    const rows = await ask(outcomesStatement(withFormer));
    if (rows.length <= MOST_WHOLE_ROWS) return toOutcomes(rows, orgId, key);
    return toOutcomes(await ask(longOutcomesStatement(withFormer)), orgId, key);
  };
  const counted = <Row>(
    count: Count,
    toCondition: (orgId: string, filter: StoreFilter) => Condition,
    { orgId, filter, readings, signal }: Counted,
  ): Promise<Row[]> => {
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
  };
  const counting = <T>(filter: StoreFilter, ask: (readings: Readings) => Promise<T>): Promise<T> =>
    gainsByDistinctParts(filter, clock.now()) ? distinctParts.ask(ask) : ask(new Map());
  const count: EventStoreReader["count"] = async (orgId, filter, signal) => {
    const [row] = await counting(filter, (readings) =>
      counted<{ count: number }>(COUNT_EVENTS, eventCondition, { orgId, filter, readings, signal }),
    );
    return row?.count ?? 0;
  };
  const idsOf = async (
    query: string,
    orgId: string,
    keys: readonly EventKey[],
  ): Promise<ReadonlySet<string>> => {
    if (keys.length === 0) return new Set();
    const rows = await lookUp<{ id: string }>(query, keyListParameters(orgId, keys));
    return new Set(rows.map(({ id }) => id));
  };
  return {
    page: makePage({ select, count, now: () => clock.now() }),
    count,
    async facets(orgId, filter, signal) {
      const [ofEvents, ofAttempts] = await counting(filter, (readings) => {
        const asked = { orgId, filter, readings, signal };
        return Promise.all([
          counted<EventFacet>(FACETS_OF_EVENTS, eventCondition, asked),
          counted<AttemptFacet>(FACETS_OF_ATTEMPTS, attemptCondition, asked),
        ]);
      });
      return toFacetCounts(ofEvents, ofAttempts);
    },
    async event(orgId, key) {
      const [row] = await lookUp<EventJson>(SELECT_EVENT, keyParameters(orgId, key));
      return row === undefined ? null : toEvent(row, orgId, key);
    },
    smallEvents: makeSmallEvents(lookUp),
    existing: (orgId, keys) => idsOf(SELECT_EXISTING, orgId, keys),
    fannedOut: async (orgId, keys) => idsOf(fannedOutStatement(await hasFormer(keys)), orgId, keys),
    attempts: async (orgId, key) => (await outcomes(orgId, key)).attempts,
    outcomes,
    async summaries(orgId, keys) {
      if (keys.length === 0) return new Map();
      const statement = summariesStatement(await hasFormer(keys));
      const rows = await lookUp<SummaryJson>(statement, keyListParameters(orgId, keys));
      return new Map(rows.map((row) => [row.event_id, toSummary(row)]));
    },
  };
}

/** Makes the function that reads within the limits, and what is asked for an organization within its share. */
function makeSelect(ask: Ask, shares: ReadShares, limits: QueryLimits) {
  return async <Row>(
    query: string,
    parameters: QueryParameters,
    settings: QuerySettings = {},
    signal?: AbortSignal,
  ): Promise<Row[]> => {
    try {
      const { org_id: orgId } = parameters;
      const all = {
        ...READ_SETTINGS,
        max_execution_time: limits.maxSeconds,
        max_memory_usage: limits.maxMemoryBytes,
        ...settings,
      };
      return await withReadDeadline(limits.maxSeconds, signal, (ended, began) => {
        const begin = (): Promise<Row[]> => {
          began();
          return ask<Row>(query, parameters, all, ended);
        };
        return typeof orgId === "string" ? shares.run(orgId, ended, begin) : begin();
      });
    } catch (error) {
      throw toStoreError(error);
    }
  };
}

const LONG_TIME_MS = 6 * 3_600_000;

/** Returns whether kept counts help: they are by organization, endpoint, provider and signature; a short time is soon counted anyway. */
function gainsByDistinctParts(filter: StoreFilter, nowMs: number): boolean {
  if (isSearch(filter) || asksForAttempts(filter)) return false;
  return lengthOfAsked(filter, nowMs) >= LONG_TIME_MS;
}

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
interface SummaryJson {
  readonly event_id: string;
  readonly delivered: number;
  readonly failed: number;
  readonly total: number;
}

function toSummary({ delivered, failed, total }: SummaryJson): DeliverySummary {
  return { delivered, failed, pending: total - delivered - failed, total };
}
