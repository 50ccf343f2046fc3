import type { EventKey } from "../../domain/event-store.ts";
import {
  CUT_BODY_CHARACTERS,
  CUT_BODY_MARK,
  MAX_RESPONSE_BODY_BYTES,
  MAX_WHOLE_BODY_BYTES,
} from "../../domain/response-body.ts";
import { timeOf, type Condition } from "./filter-sql.ts";
import type { Reading, TimeSpan } from "./reading.ts";
import { ATTEMPTS, EVENTS, fanoutId, FANOUT_STATUS } from "./schema.ts";
import { timeText } from "./tab-separated.ts";

/** The statements of the read side; `%WHERE%` and `%SCOPE%` are scoped conditions of filter-sql.ts. */

/**
 * Equal keys are equal rows, and neighbours in this order. `LIMIT BY` alone would read to the end of the organization
 * (150,000 of 150,000 rows, against 12,000), so a bounded number of rows is read in order and equal ones among them are dropped.
 * `read` is how many rows there were: if it equals `most_read`, there may be more.
 */
export const SELECT_PAGE = `
  SELECT * FROM (
    SELECT *, count() OVER () AS read FROM (
      SELECT id, endpoint_id, org_id, provider, toUnixTimestamp64Milli(received_at) AS received_at_ms, signature_valid,
        verification_error, payload_size
      FROM events
      WHERE %WHERE%
      ORDER BY received_at DESC, id DESC
      LIMIT {most_read:UInt64}
    )
  )
  ORDER BY received_at_ms DESC, id DESC
  LIMIT 1 BY received_at_ms, id
  LIMIT {limit:UInt32} OFFSET {offset:UInt64}`;

/** The oldest minute with at most `offset` events in later ones: its end, and the number of those events. */
export const SELECT_MINUTE = `
  SELECT toUnixTimestamp(minute) * 1000 + 60000 AS end_ms, newer FROM (
    SELECT minute, sum(events) OVER (ORDER BY minute DESC ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) - events AS newer
    FROM (SELECT toStartOfMinute(received_at) AS minute, count() AS events FROM events FINAL WHERE %WHERE% GROUP BY minute)
  )
  WHERE newer <= {offset:UInt64} ORDER BY minute LIMIT 1`;

/** A count of rows, grouped by some columns. */
export interface Count {
  readonly table: "events" | "attempts";
  readonly by: readonly string[];
}

export const COUNT_EVENTS: Count = { table: "events", by: [] };
export const FACETS_OF_EVENTS: Count = { table: "events", by: ["provider", "signature_valid"] };
export const FACETS_OF_ATTEMPTS: Count = { table: "attempts", by: ["status"] };

const TIME = { events: EVENTS.day, attempts: ATTEMPTS.day } as const;

/**
 * Returns the statement that counts each row within `asked` once, however often it is stored: from the counts that distinct parts keep
 * where these lie entirely within it. `%SCOPE%` is the condition without those times.
 */
export function countStatement(
  { table, by }: Count,
  reading: Reading | undefined,
  asked: TimeSpan,
): Condition {
  const columns = by.map((column) => `${column}, `).join("");
  const group = by.length === 0 ? "" : ` GROUP BY ${by.join(", ")}`;
  const counted = (of: string): string => `SELECT ${columns}count() AS count FROM ${of}${group}`;
  if (reading === undefined)
    return { sql: counted(`${table} FINAL WHERE %WHERE%`), parameters: {} };
  const { distinct, times, early, isComplete } = reading;
  const isInside = (name: string): boolean => {
    const { fromMs, untilMs } = times.get(name)!;
    return fromMs >= asked.fromMs && untilMs <= asked.untilMs;
  };
  const inside = distinct.filter(isInside);
  const across = distinct.filter((name) => !isInside(name));
  const spans = spansOf(table, reading.spans);
  const pieces: string[] = [];
  if (inside.length > 0)
    pieces.push(counted(`${table} WHERE %SCOPE% AND _part IN {inside:Array(String)}`));
  if (across.length > 0)
    pieces.push(counted(`${table} WHERE %WHERE% AND _part IN {across:Array(String)}`));
  if (early.length > 0)
    pieces.push(
      counted(`${table} WHERE %WHERE% AND _part IN {early:Array(String)} AND (${spans.sql})`),
    );
  if (!isComplete)
    pieces.push(
      counted(
        `${table} FINAL WHERE %WHERE% AND _part NOT IN {inside:Array(String)} AND _part NOT IN {across:Array(String)}
          AND NOT (${spans.sql})`,
      ),
    );
  const sql =
    pieces.length === 1
      ? pieces[0]!
      : `SELECT ${columns}sum(count) AS count FROM (${pieces.join(" UNION ALL ")})${group}`;
  return { sql, parameters: { inside, across, early, ...spans.parameters } };
}

function spansOf(table: Count["table"], spans: readonly TimeSpan[]): Condition {
  const time = TIME[table];
  const parameters: Record<string, number> = {};
  const each = spans.map(({ fromMs, untilMs }, index) => {
    parameters[`span${index}_from`] = fromMs;
    parameters[`span${index}_until`] = untilMs;
    return `${time} >= ${timeOf(`span${index}_from`)} AND ${time} < ${timeOf(`span${index}_until`)}`;
  });
  return { sql: each.length === 0 ? "false" : each.join(" OR "), parameters };
}

/**
 * Returns the statement that counts the rows of some parts from a time on, the parts that these are in, and how many of them differ.
 * Parts that are merged away meanwhile can make the figures disagree with what was asked for, never agree with it.
 */
export function repeatedRowsStatement(table: Count["table"]): string {
  const those = `_part IN {parts:Array(String)} AND ${TIME[table]} >= ${timeOf("from_ms")}`;
  return `
    SELECT count() AS stored, uniqExact(_part) AS parts, (SELECT count() FROM ${table} FINAL WHERE ${those}) AS different
    FROM ${table} WHERE ${those}`;
}

/**
 * For rows by their whole key, when nothing else is filtered by: the statement already says what the plan's optimizations would find
 * out, and they cost a tenth of it ("Questions to ten million events" in bench/what-was-tried.md).
 */
const AS_WRITTEN = "SETTINGS query_plan_enable_optimizations = 0";

/** A payload, or null if it is large. */
const SMALL_PAYLOAD = `if(length(payload) <= ${64 * 1024}, base64Encode(payload), NULL)`;

export const SELECT_EVENT = selectEvent("base64Encode(payload)");
export const SELECT_SMALL_EVENT = selectEvent(SMALL_PAYLOAD);

function selectEvent(payload: string): string {
  return `
  SELECT details, headers, ${payload} AS payload_base64 FROM events
  PREWHERE org_id = {org_id:String} AND received_at = ${timeOf("at_ms")} AND id = {id:String} LIMIT 1 ${AS_WRITTEN}`;
}

/** Reads several events; times are given as such, not computed from numbers: the primary key finds rows by constants only. */
export const SELECT_SMALL_EVENTS = `
  SELECT id, details, headers, ${SMALL_PAYLOAD} AS payload_base64
  FROM events
  PREWHERE org_id = {org_id:String} AND received_at IN {times:Array(DateTime64(3, 'UTC'))} AND id IN {ids:Array(String)}
  LIMIT 1 BY id`;

export const SELECT_EXISTING = `
  SELECT DISTINCT id FROM events
  WHERE org_id = {org_id:String} AND received_at IN {times:Array(DateTime64(3, 'UTC'))} AND id IN {ids:Array(String)}`;

/** What `SELECT_EVENT` and the statements for outcomes bind. */
export function keyParameters(orgId: string, key: EventKey) {
  return { org_id: orgId, at_ms: key.receivedAtMs, id: key.id };
}

/** What the statements for several events bind: times as texts, see `SELECT_SMALL_EVENTS`. */
export function keyListParameters(orgId: string, keys: readonly EventKey[]) {
  return {
    org_id: orgId,
    ids: keys.map(({ id }) => id),
    times: keys.map(({ receivedAtMs }) => timeText(receivedAtMs)),
  };
}

const OF_EVENT = `org_id = {org_id:String} AND event_received_at = ${timeOf("at_ms")} AND event_id = {id:String}`;

/** The most rows that cannot exceed `MAX_WHOLE_BODY_BYTES`. */
export const MAX_WHOLE_ROWS = MAX_WHOLE_BODY_BYTES / MAX_RESPONSE_BODY_BYTES;

/**
 * Returns the statement for an event's attempts and fan-outs, with or without those that may still be in the former table. It ends one
 * row after `MAX_WHOLE_ROWS`: the answer is then not all there is, and `longOutcomesStatement` gives it.
 */
export function outcomesStatement(withFormer: boolean): string {
  return `
  SELECT id, details, response_body FROM attempts FINAL PREWHERE ${OF_EVENT} LIMIT ${MAX_WHOLE_ROWS + 1}
  ${withFormer ? FORMER_OUTCOMES : ""} ${AS_WRITTEN}`;
}

/**
 * Returns the statement for all of them, however many: response bodies beyond `MAX_WHOLE_BODY_BYTES` are cut. It reads all bodies
 * twice, since one that sorts them would hold all in memory, and in small blocks, which take less of it than one of all rows.
 */
export function longOutcomesStatement(withFormer: boolean): string {
  const newest = `
    SELECT id FROM attempts FINAL PREWHERE ${OF_EVENT}
    QUALIFY sum(length(response_body)) OVER (
      ORDER BY attempted_at DESC, try_number DESC, deferral DESC, id DESC ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    ) <= ${MAX_WHOLE_BODY_BYTES}`;
  return `
  SELECT id, details, if(lengthUTF8(response_body) <= ${CUT_BODY_CHARACTERS} OR id IN (${newest}), response_body,
    concat(leftUTF8(response_body, ${CUT_BODY_CHARACTERS}), '\n${CUT_BODY_MARK}')) AS response_body
  FROM attempts FINAL PREWHERE ${OF_EVENT}
  ${withFormer ? FORMER_OUTCOMES : ""} ${AS_WRITTEN}, max_block_size = 512`;
}

const FORMER_OUTCOMES = `
  UNION ALL
  SELECT '${fanoutId("")}' || run, CAST(destination_ids, 'Array(Nullable(String))'), '' FROM fanouts PREWHERE ${OF_EVENT}`;

/** See `FormerFanoutsState`. Parts know their newest event, so no row is read. A database that began with version 8 got all at once. */
export const SELECT_FORMER_FANOUTS = `
  SELECT toUnixTimestamp64Milli(max(event_received_at)) AS newestMs, (
    SELECT if(maxIf(applied_at, version = 8) > minIf(applied_at, version = 1) + INTERVAL 10 MINUTE,
      toUnixTimestamp64Milli(maxIf(applied_at, version = 8)), 0) FROM schema_migrations
  ) AS upgradedMs
  FROM fanouts`;

/**
 * Limits to the events of one page: finding the latest attempt per destination costs too much over all of them. Each time is given, not
 * the first and the last: a search may find one event today and the next a month ago, and all attempts in between would be read.
 */
const OF_PAGE = `org_id = {org_id:String} AND event_received_at IN {times:Array(DateTime64(3, 'UTC'))}
    AND event_id IN {ids:Array(String)}`;

export function fannedOutStatement(withFormer: boolean): string {
  const former = `UNION DISTINCT SELECT event_id AS id FROM fanouts WHERE ${OF_PAGE}`;
  return `
    SELECT DISTINCT event_id AS id FROM attempts WHERE ${OF_PAGE} AND status = '${FANOUT_STATUS}'
    ${withFormer ? former : ""}`;
}

/**
 * Returns the statement for delivery summaries. Per destination, the latest attempt that is not a deferral decides; within a run, the
 * highest try is the latest one, even if the clock was set back before it. A destination counts once it was fanned out to; one known
 * only from attempts (its fan-out record is still on its way) counts as well.
 */
export function summariesStatement(withFormer: boolean): string {
  // An event that was fanned out to no destination has a row, too.
  const each = (destinationIds: string): string =>
    `arrayJoin(if(empty(${destinationIds}), [''], ${destinationIds}))`;
  const former = `
        UNION ALL
        SELECT event_id, ${each("CAST(destination_ids, 'Array(String)')")} AS destination_id, '${FANOUT_STATUS}' AS status,
          '' AS run, toDateTime64(0, 3, 'UTC') AS attempted_at, 0 AS try_number, 0 AS deferral, '' AS id
        FROM fanouts WHERE ${OF_PAGE}`;
  return `
  SELECT event_id, countIf(decisive = 'delivered') AS delivered, countIf(decisive = 'dead') AS failed,
    countIf(destination_id != '') AS total
  FROM (
    SELECT event_id, destination_id, argMaxIf(status, position, status NOT IN ('${FANOUT_STATUS}', 'rate_limited')) AS decisive
    FROM (
      SELECT event_id, destination_id, status, (
        maxIf(attempted_at, status != '${FANOUT_STATUS}') OVER (
          PARTITION BY event_id, destination_id, run ORDER BY try_number, deferral, attempted_at, id
        ), try_number, deferral, attempted_at, id) AS position
      FROM (
        SELECT event_id,
          ${each(`if(status = '${FANOUT_STATUS}', CAST(details, 'Array(String)'), [CAST(destination_id, 'String')])`)} AS destination_id,
          CAST(status, 'String') AS status, run, attempted_at, try_number, deferral, id
        FROM attempts FINAL WHERE ${OF_PAGE}${withFormer ? former : ""}
      )
    )
    GROUP BY event_id, destination_id
  )
  GROUP BY event_id`;
}
