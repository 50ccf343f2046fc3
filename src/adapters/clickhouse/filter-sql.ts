import { isSearch, type StoreFilter } from "../../domain/event-store.ts";
import type { QueryParameter, QueryParameters } from "./ask.ts";
import {
  FANOUT_STATUS,
  INDEXED_TEXT,
  indexedPart,
  LEAF_SHARDS,
  leavesOfShard,
  SEARCH_TEXT,
} from "./schema.ts";
import { sipHash64 } from "./sip-hash.ts";

/** A condition with its bound parameters. Each begins with the organization; queries are scoped nowhere else. */
export interface Condition {
  readonly sql: string;
  readonly parameters: QueryParameters;
}

/** Returns SQL for the time that a bound parameter gives in ms since the epoch. */
export function timeOf(parameter: string): string {
  return `fromUnixTimestamp64Milli({${parameter}:Int64}, 'UTC')`;
}

/** Returns the condition for matching rows of `events`. */
export function eventCondition(orgId: string, filter: StoreFilter): Condition {
  const parts = common(filter, "received_at");
  const parameters = commonParameters(orgId, filter);
  for (const [index, term] of filter.terms.entries()) {
    // The text as it is goes first: making arbitrary bytes UTF-8 takes several times as long as searching them.
    parts.push(`${SEARCH_TEXT} LIKE {term${index}:String}`);
    parameters[`term${index}`] = `%${escapeLike(term)}%`;
    const indexed = indexedPart(term);
    if (indexed === null) continue;
    parts.push(`${INDEXED_TEXT} LIKE {indexed${index}:String}`);
    parameters[`indexed${index}`] = `%${escapeLike(indexed)}%`;
  }
  if (filter.token !== undefined) {
    const leaf = sipHash64(filter.token);
    const shard = leavesOfShard(Number(leaf % BigInt(LEAF_SHARDS)));
    // The filters are asked by a hint: before 26.5, servers do not see them in a condition that has a lambda.
    parts.push(`indexHint(has(${shard}, {leaf:UInt64}))`, "has(leaves, {leaf:UInt64})");
    parameters["leaf"] = String(leaf);
  }
  if (asksForAttempts(filter)) {
    parts.push(`id IN (${attemptedEvents(filter)})`);
    Object.assign(parameters, attemptParameters(filter));
  }
  return { sql: parts.join(" AND "), parameters };
}

/** Returns the condition for all attempts of the matching events, without reading `events` where attempts have the filter's columns. */
export function attemptCondition(orgId: string, filter: StoreFilter): Condition {
  const parts = [...common(filter, "event_received_at"), `status != '${FANOUT_STATUS}'`];
  if (isSearch(filter)) {
    const events = eventCondition(orgId, filter);
    parts.push(`event_id IN (SELECT id FROM events WHERE ${events.sql})`);
    return { sql: parts.join(" AND "), parameters: events.parameters };
  }
  const parameters = commonParameters(orgId, filter);
  if (asksForAttempts(filter)) {
    parts.push(`event_id IN (${attemptedEvents(filter)})`);
    Object.assign(parameters, attemptParameters(filter));
  }
  return { sql: parts.join(" AND "), parameters };
}

/** Selects events with at least one attempt of the given status at the given destination. */
function attemptedEvents(filter: StoreFilter): string {
  const parts = common(filter, "event_received_at");
  if (filter.attemptStatus !== undefined) parts.push("status = {attempt_status:String}");
  if (filter.destinationId !== undefined) parts.push("destination_id = {destination_id:String}");
  return `SELECT event_id FROM attempts FINAL WHERE ${parts.join(" AND ")}`;
}

/** Returns whether events are asked for by their attempts. */
export function asksForAttempts({ attemptStatus, destinationId }: StoreFilter): boolean {
  return attemptStatus !== undefined || destinationId !== undefined;
}

/** Returns conditions on the columns that events and attempts share; `time` is the column of the event's time. */
function common(filter: StoreFilter, time: string): string[] {
  const parts = ["org_id = {org_id:String}"];
  if (filter.endpointId !== undefined) parts.push("endpoint_id = {endpoint_id:String}");
  if (filter.provider !== undefined) parts.push("provider = {provider:String}");
  if (filter.signatureValid !== undefined) parts.push("signature_valid = {signature_valid:Bool}");
  if (filter.fromMs !== undefined) parts.push(`${time} >= ${timeOf("from_ms")}`);
  if (filter.toMs !== undefined) parts.push(`${time} < ${timeOf("to_ms")}`);
  return parts;
}

function commonParameters(orgId: string, filter: StoreFilter): Record<string, QueryParameter> {
  return {
    org_id: orgId,
    ...(filter.endpointId === undefined ? {} : { endpoint_id: filter.endpointId }),
    ...(filter.provider === undefined ? {} : { provider: filter.provider }),
    ...(filter.signatureValid === undefined ? {} : { signature_valid: filter.signatureValid }),
    ...(filter.fromMs === undefined ? {} : { from_ms: Math.ceil(filter.fromMs) }),
    ...(filter.toMs === undefined ? {} : { to_ms: Math.ceil(filter.toMs) }),
  };
}

function attemptParameters(filter: StoreFilter): QueryParameters {
  return {
    ...(filter.attemptStatus === undefined ? {} : { attempt_status: filter.attemptStatus }),
    ...(filter.destinationId === undefined ? {} : { destination_id: filter.destinationId }),
  };
}

function escapeLike(term: string): string {
  return term.replaceAll(/[\\%_]/g, "\\$&");
}
