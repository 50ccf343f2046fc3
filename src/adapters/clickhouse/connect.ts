import { ClickHouseLogLevel, createClient, type ClickHouseClient } from "@clickhouse/client";

/** For inserts and migrations, which may take long; reads end sooner (read-deadline.ts). */
export const REQUEST_TIMEOUT_MS = 60_000;

/** Requests beyond this many wait for a free connection. */
export const MAX_CONNECTIONS = 16;

/** Shorter than servers keep idle connections open: three seconds or more. */
export const IDLE_CONNECTION_MS = 2_500;

export const ANSWER_SETTINGS = {
  output_format_json_quote_64bit_integers: 0,
  // Answers are a few rows: threads for writing them cost more than the writing (0.3 ms of 1.2 for `SELECT 1`).
  output_format_parallel_formatting: 0,
} as const;

/** Returns the database that a URL names, by ClickHouse's own default where it names none. */
export function databaseOf({ pathname }: URL): string {
  return decodeURIComponent(pathname.slice(1)) || "default";
}

/** @param url `http(s)://user:password@host:port/database` */
export function connectClickHouse(url: string): ClickHouseClient {
  const server = new URL(url);
  const database = databaseOf(server);
  // The driver takes a database from there as it stands, percent-encoded.
  server.pathname = "";
  return createClient({
    url: server,
    database,
    application: "webhook-relay",
    request_timeout: REQUEST_TIMEOUT_MS,
    max_open_connections: MAX_CONNECTIONS,
    keep_alive: { enabled: true, idle_socket_ttl: IDLE_CONNECTION_MS },
    log: { level: ClickHouseLogLevel.OFF },
    clickhouse_settings: ANSWER_SETTINGS,
  });
}
