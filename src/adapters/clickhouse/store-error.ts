import { ClickHouseError } from "@clickhouse/client";
import { EventStoreError } from "../../domain/event-store.ts";
import { messageOf } from "../../domain/thrown.ts";

/** What a statement was stopped for; by ClickHouse's number and name. */
const LIMITS = codesOf({
  TIMEOUT_EXCEEDED: 159,
  TOO_MANY_ROWS: 158,
  TOO_MANY_BYTES: 307,
  TOO_MANY_ROWS_OR_BYTES: 396,
  MEMORY_LIMIT_EXCEEDED: 241,
  TOO_SLOW: 160,
  SET_SIZE_LIMIT_EXCEEDED: 191,
  QUERY_WAS_CANCELLED: 394,
});
/** What has nothing to do with the statement: the server has too much to do, lacks something, or has lost others of its cluster. */
const PASSING = codesOf({
  TOO_MANY_SIMULTANEOUS_QUERIES: 202,
  TOO_MANY_PARTS: 252,
  SERVER_OVERLOADED: 745,
  CANNOT_SCHEDULE_TASK: 439,
  CANNOT_ALLOCATE_MEMORY: 173,
  QUOTA_EXCEEDED: 201,
  TCP_CONNECTION_LIMIT_REACHED: 749,
  HTTP_CONNECTION_LIMIT_REACHED: 762,
  NO_FREE_CONNECTION: 203,
  NOT_ENOUGH_SPACE: 243,
  CANNOT_READ_FROM_FILE_DESCRIPTOR: 74,
  CANNOT_WRITE_TO_FILE_DESCRIPTOR: 75,
  CANNOT_OPEN_FILE: 76,
  CANNOT_CLOSE_FILE: 77,
  CANNOT_SEEK_THROUGH_FILE: 87,
  CANNOT_TRUNCATE_FILE: 88,
  CANNOT_CREATE_DIRECTORY: 172,
  CANNOT_FSYNC: 204,
  CANNOT_STATVFS: 214,
  CANNOT_STAT: 400,
  CANNOT_UNLINK: 458,
  CANNOT_FSTAT: 531,
  KEEPER_EXCEPTION: 999,
  NO_ZOOKEEPER: 225,
  TABLE_IS_READ_ONLY: 242,
  ALL_REPLICAS_ARE_STALE: 369,
  NETWORK_ERROR: 210,
  SOCKET_TIMEOUT: 209,
  UNKNOWN_STATUS_OF_INSERT: 319,
  ABORTED: 236,
  SYSTEM_ERROR: 425,
  POCO_EXCEPTION: 1000,
  STD_EXCEPTION: 1001,
  UNKNOWN_EXCEPTION: 1002,
});

const ACCESS_DENIED = 497;
/** What has to be fixed at the store; it does not know the database or the tables before it was migrated. */
const UNUSABLE = codesOf({
  AUTHENTICATION_FAILED: 516,
  ACCESS_DENIED,
  READONLY: 164,
  ALL_CONNECTION_TRIES_FAILED: 279,
  DNS_ERROR: 198,
  UNKNOWN_DATABASE: 81,
  UNKNOWN_TABLE: 60,
});

/** Returns any failure of the client as an EventStoreError; its code says whether to narrow the query, to wait or to fix the store. */
export function toStoreError(error: unknown): EventStoreError {
  if (error instanceof EventStoreError) return error;
  if (!(error instanceof ClickHouseError))
    return new EventStoreError(
      "store_unavailable",
      `ClickHouse does not answer: ${messageOf(error)}`,
      { cause: error },
    );
  if (LIMITS.has(error.code))
    return new EventStoreError("query_limit", `ClickHouse stopped the query: ${error.type}`, {
      cause: error,
    });
  const said = `(${error.type ?? error.code}): ${error.message}`;
  return PASSING.has(error.code) || UNUSABLE.has(error.code)
    ? new EventStoreError("store_unavailable", `ClickHouse cannot be used ${said}`, {
        cause: error,
      })
    : new EventStoreError("store_refused", `ClickHouse refused ${said}`, { cause: error });
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

/** Returns whether the user lacks the right to what was asked for. */
export function isAccessDenied({ cause }: EventStoreError): boolean {
  return cause instanceof ClickHouseError && cause.code === String(ACCESS_DENIED);
}

function codesOf(codes: Readonly<Record<string, number>>): ReadonlySet<string> {
  return new Set(Object.values(codes).map(String));
}
