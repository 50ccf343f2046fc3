import { ClickHouseError } from "@clickhouse/client";
import { EventStoreError } from "../../domain/event-store.ts";
import { messageOf } from "../../domain/thrown.ts";

/** TIMEOUT_EXCEEDED, TOO_MANY_ROWS, TOO_MANY_BYTES, MEMORY_LIMIT_EXCEEDED, TOO_SLOW, SET_SIZE_LIMIT, QUERY_WAS_CANCELLED */
const LIMITS = new Set(["159", "158", "307", "241", "160", "191", "394"]);
/** TOO_MANY_SIMULTANEOUS_QUERIES, TOO_MANY_PARTS, NOT_ENOUGH_SPACE, KEEPER_EXCEPTION, NETWORK_ERROR, TABLE_IS_READ_ONLY, … */
const PASSING = new Set([
  "202",
  "252",
  "243",
  "999",
  "210",
  "209",
  "242",
  "319",
  "203",
  "236",
  "425",
  "1002",
]);

const ACCESS_DENIED = "497";
/**
 * What has to be fixed at the store: AUTHENTICATION_FAILED, ACCESS_DENIED, READONLY, ALL_CONNECTION_TRIES_FAILED, DNS_ERROR, and
 * UNKNOWN_DATABASE and UNKNOWN_TABLE, for one that was not migrated yet
 */
const UNUSABLE = new Set(["516", ACCESS_DENIED, "164", "279", "198", "81", "60"]);

/** Returns any failure of the client as an EventStoreError; its code says whether to narrow the query, to wait or to fix the store. */
export function toStoreError(error: unknown): EventStoreError {
  if (error instanceof EventStoreError) return error;
  if (error instanceof ClickHouseError) {
    if (LIMITS.has(error.code))
      return new EventStoreError("query_limit", `ClickHouse stopped the query: ${error.type}`, {
        cause: error,
      });
    if (PASSING.has(error.code) || UNUSABLE.has(error.code))
      return new EventStoreError(
        "store_unavailable",
        `ClickHouse cannot be used (${error.type ?? error.code}): ${error.message}`,
        { cause: error },
      );
    return new EventStoreError(
      "store_refused",
      `ClickHouse refused (${error.type ?? error.code}): ${error.message}`,
      { cause: error },
    );
  }
  const message = `ClickHouse does not answer: ${messageOf(error)}`;
  return new EventStoreError("store_unavailable", message, { cause: error });
}

/** Returns whether the user lacks the right to what was asked for. */
export function isAccessDenied({ cause }: EventStoreError): boolean {
  return cause instanceof ClickHouseError && cause.code === ACCESS_DENIED;
}

/** Does the same for an insert: a refusal may quote rows, including payloads and headers, so only its type is passed on. */
export function toInsertError(error: unknown): EventStoreError {
  const found = toStoreError(error);
  if (found.code !== "store_refused" || !(error instanceof ClickHouseError)) return found;
  return new EventStoreError(
    "store_refused",
    `ClickHouse refused the insert (${error.type ?? "unknown"}, code ${error.code}); what it says may quote rows and is left out`,
  );
}
