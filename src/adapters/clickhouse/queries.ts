import type { ClickHouseClient } from "@clickhouse/client";
import type { Clock } from "../../domain/clock.ts";
import type { DeliverySummary } from "../../domain/event-query.ts";
import type { EventKey, EventStoreReader } from "../../domain/event-store.ts";
import { askByDriver, type Ask } from "./ask.ts";
import { MAX_CONNECTIONS } from "./connect.ts";
import { makeCounts } from "./counts.ts";
import { FormerFanouts, type FormerFanoutsState } from "./former-fanouts.ts";
import { makeLimitedSelect, type QueryLimits } from "./limited-select.ts";
import { makePage } from "./page.ts";
import {
  fannedOutStatement,
  keyParameters,
  keyListParameters,
  longOutcomesStatement,
  MAX_WHOLE_ROWS,
  outcomesStatement,
  SELECT_EVENT,
  SELECT_EXISTING,
  SELECT_FORMER_FANOUTS,
  summariesStatement,
} from "./query-sql.ts";
import { toEvent, toOutcomes, type EventJson, type OutcomeJson } from "./rows.ts";
import { makeSmallEvents } from "./small-events.ts";

/** Kept for questions by key, which take milliseconds: however many searches are running, these never wait for one to end. */
const PLACES_OF_LOOKUPS = 1;
const SYSTEM_TIME = { now: () => Date.now(), monotonic: () => performance.now() };
const DEFAULT_LIMITS: QueryLimits = {
  maxSeconds: 10,
  maxMemoryBytes: 2_000_000_000,
  maxAtOnce: MAX_CONNECTIONS,
};

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
  const select = makeLimitedSelect(askByDriver(client), {
    ...limits,
    maxAtOnce: Math.max(1, limits.maxAtOnce - PLACES_OF_LOOKUPS),
  });
  const lookUp = makeLimitedSelect(lookUpBy, limits);
  const { count, facets } = makeCounts(select, clock);
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
    if (rows.length <= MAX_WHOLE_ROWS) return toOutcomes(rows, orgId, key);
    return toOutcomes(await ask(longOutcomesStatement(withFormer)), orgId, key);
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
    facets,
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

interface SummaryJson {
  readonly event_id: string;
  readonly delivered: number;
  readonly failed: number;
  readonly total: number;
}

function toSummary({ delivered, failed, total }: SummaryJson): DeliverySummary {
  return { delivered, failed, pending: total - delivered - failed, total };
}
