import { randomUUID } from "node:crypto";
import { parseError } from "@clickhouse/client";
import { Pool } from "undici";
import { nextTurn } from "../../domain/next-turn.ts";
import type { Ask, QueryParameter } from "./ask.ts";
import { ANSWER_SETTINGS, databaseOf, IDLE_CONNECTION_MS, MAX_CONNECTIONS } from "./connect.ts";
import { escapeText } from "./tab-separated.ts";

const CHARACTERS_PER_TURN = 1024 * 1024;

/** Connections for statements that read a few rows by key. */
export interface Lookups {
  readonly ask: Ask;
  close(): Promise<void>;
}

/**
 * Asks over connections of its own, through ClickHouse's HTTP interface. The driver waits for a timer of at least a millisecond before
 * each request and takes 0.6 ms more CPU for it: both are a sixth of what an event by its id takes ("Questions to ten million events" in
 * bench/what-was-tried.md). An answer is sent only when it is complete, so an error never comes in the middle of its rows.
 * Follows https://clickhouse.com/docs/interfaces/http
 *
 * @param url `http(s)://user:password@host:port/database`
 */
export function connectLookups(url: string): Lookups {
  const server = new URL(url);
  const { origin, username, password } = server;
  const pool = new Pool(origin, {
    connections: MAX_CONNECTIONS,
    keepAliveTimeout: IDLE_CONNECTION_MS,
  });
  const user = `${decodeURIComponent(username) || "default"}:${decodeURIComponent(password)}`;
  const headers = {
    authorization: `Basic ${Buffer.from(user).toString("base64")}`,
    "user-agent": "webhook-relay",
  };
  const database = databaseOf(server);
  return {
    ask: async (query, parameters, settings, signal) => {
      const search = new URLSearchParams({
        database,
        query_id: randomUUID(),
        wait_end_of_query: "1",
      });
      for (const [name, value] of Object.entries({ ...ANSWER_SETTINGS, ...settings }))
        search.set(name, String(value));
      for (const [name, value] of Object.entries(parameters))
        search.set(`param_${name}`, parameterText(value));
      const {
        statusCode,
        headers: told,
        body,
      } = await pool.request({
        method: "POST",
        path: `/?${search.toString()}`,
        headers,
        body: `${query}\nFORMAT JSONEachRow`,
        signal,
      });
      const text = await body.text();
      if (statusCode !== 200 || told["x-clickhouse-exception-code"] !== undefined)
        throw parseError(text);
      return rowsOf(text);
    },
    close: () => pool.destroy(),
  };
}

/** Parses a long answer in pieces, so that the event loop turns in between. */
async function rowsOf<Row>(text: string): Promise<Row[]> {
  const rows: Row[] = [];
  let parsed = 0;
  let restAt = CHARACTERS_PER_TURN;
  for (const line of text.split("\n")) {
    if (line === "") continue;
    rows.push(JSON.parse(line) as Row);
    parsed += line.length;
    if (parsed < restAt) continue;
    restAt = parsed + CHARACTERS_PER_TURN;
    await nextTurn();
  }
  return rows;
}

function parameterText(value: QueryParameter): string {
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  if (typeof value === "string") return escapeText(value, false);
  return `[${value.map((one) => `'${escapeText(one, true)}'`).join(",")}]`;
}
