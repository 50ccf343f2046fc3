/** The statements of the read side; `%WHERE%` is a scoped condition of filter-sql.ts. */

/**
 * Equal keys are equal rows, and neighbours in this order. `LIMIT BY` alone would read to the end of the organization
 * (150,000 of 150,000 rows, against 12,000): so a bounded number of rows is read in order, and equal ones among them are dropped.
 * `read` tells how many rows there were: as many as `most_read` means that there may be more.
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

/** A question that counts rows by some columns. */
export interface Count {
  readonly table: "events" | "attempts";
  readonly by: readonly string[];
}

export const COUNT_EVENTS: Count = { table: "events", by: [] };
export const FACETS_OF_EVENTS: Count = { table: "events", by: ["provider", "signature_valid"] };
export const FACETS_OF_ATTEMPTS: Count = { table: "attempts", by: ["status"] };

/**
 * Counts rows once, however often they are stored. `whole`: parts in {whole} are known to hold nothing twice (see
 * whole-days.ts), so they are counted without looking for duplicates, and from the counts they keep themselves.
 */
export function countStatement({ table, by }: Count, whole: boolean): string {
  const columns = by.map((column) => `${column}, `).join("");
  const group = by.length === 0 ? "" : ` GROUP BY ${by.join(", ")}`;
  const counted = (of: string): string => `SELECT ${columns}count() AS count FROM ${of}${group}`;
  if (!whole) return counted(`${table} FINAL WHERE %WHERE%`);
  const apart = [
    counted(`${table} WHERE %WHERE% AND _part IN {whole:Array(String)}`),
    counted(`${table} FINAL WHERE %WHERE% AND _part NOT IN {whole:Array(String)}`),
  ];
  return `SELECT ${columns}sum(count) AS count FROM (${apart.join(" UNION ALL ")})${group}`;
}

const KEY =
  "org_id = {org_id:String} AND received_at = fromUnixTimestamp64Milli({at_ms:Int64}, 'UTC') AND id = {id:String}";

/** Each column costs a quarter of a millisecond, so what the key tells is not asked for. */
export const SELECT_EVENT = `
  SELECT endpoint_id, provider, method, path, query, headers, content_type, source_ip, signature_valid, verification_error,
    reason, body_stored, payload_size, base64Encode(payload) AS payload_base64
  FROM events WHERE ${KEY} LIMIT 1`;

export const EVENT_EXISTS = `SELECT 1 AS found FROM events WHERE ${KEY} LIMIT 1`;

const OF_EVENT =
  "org_id = {org_id:String} AND event_received_at = fromUnixTimestamp64Milli({at_ms:Int64}, 'UTC') AND event_id = {id:String}";

export const SELECT_ATTEMPTS = `
  SELECT id, destination_id, endpoint_id, toUnixTimestamp64Milli(attempted_at) AS attempted_at_ms, try_number, deferral,
    receiver_url, http_status, response_body, latency_ms, status, toUnixTimestamp64Milli(next_retry_at) AS next_retry_at_ms
  FROM attempts FINAL WHERE ${OF_EVENT}`;

export const SELECT_FANOUTS = `SELECT destination_ids FROM fanouts WHERE ${OF_EVENT}`;

/** Only for the events of one page: the latest attempt per destination costs too much over all of them. */
const OF_PAGE = `org_id = {org_id:String} AND event_id IN {ids:Array(String)}
    AND event_received_at >= fromUnixTimestamp64Milli({from_ms:Int64}, 'UTC')
    AND event_received_at <= fromUnixTimestamp64Milli({to_ms:Int64}, 'UTC')`;

/**
 * Per destination the latest attempt that is not a deferral decides. A destination counts once it was fanned out
 * to; one that is only known from attempts (its fan-out record is still on its way) counts as well.
 */
export const SELECT_SUMMARIES = `
  SELECT event_id, countIf(decisive = 'delivered') AS delivered, countIf(decisive = 'dead') AS failed,
    countIf(destination_id != '') AS total
  FROM (
    SELECT event_id, destination_id, argMaxIf(status, position, status NOT IN ('', 'rate_limited')) AS decisive
    FROM (
      SELECT event_id, CAST(destination_id, 'String') AS destination_id, CAST(status, 'String') AS status,
        (attempted_at, try_number, deferral, id) AS position
      FROM attempts FINAL WHERE ${OF_PAGE}
      UNION ALL
      SELECT event_id, CAST(arrayJoin(if(empty(destination_ids), [''], destination_ids)), 'String') AS destination_id, '' AS status,
        (toDateTime64(0, 3, 'UTC'), 0, 0, '') AS position
      FROM fanouts WHERE ${OF_PAGE}
    )
    GROUP BY event_id, destination_id
  )
  GROUP BY event_id`;
