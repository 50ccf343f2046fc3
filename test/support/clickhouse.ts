import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { ClickHouseClient } from "@clickhouse/client";
import { connectClickHouse } from "../../src/adapters/clickhouse/connect.ts";
import { connectLookups, type Lookups } from "../../src/adapters/clickhouse/lookups.ts";
import { makeEventStoreReader } from "../../src/adapters/clickhouse/queries.ts";
import { startEmbeddedClickHouse } from "../../src/embedded/chdb/start-embedded-clickhouse.ts";
import type { Clock } from "../../src/domain/clock.ts";
import type { EventStoreReader } from "../../src/domain/event-store.ts";
import { makeSilentLogger } from "./silent-logger.ts";

export interface TestClickHouse extends AsyncDisposable {
  readonly client: ClickHouseClient;
  readonly lookups: Lookups;
  readonly url: string;
  readonly dataDir: string;
}

/** Starts with an empty database: on a real server when CLICKHOUSE_URL names one, else chDB in a fresh directory. */
export async function startTestClickHouse(): Promise<TestClickHouse> {
  const dataDir = await mkdtemp(join(tmpdir(), "relay-clickhouse-"));
  const embedded = await startEmbeddedClickHouse({ dataDir, logger: makeSilentLogger() });
  const client = connectClickHouse(embedded.url);
  const lookups = connectLookups(embedded.url);
  return {
    client,
    lookups,
    url: embedded.url,
    dataDir,
    async [Symbol.asyncDispose]() {
      await Promise.all([client.close(), lookups.close()]);
      await embedded[Symbol.asyncDispose]();
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

/** Makes a reader like the api role's. */
export function readerOf({ client, lookups }: TestClickHouse): EventStoreReader {
  return makeEventStoreReader(client, {}, undefined, lookups.ask);
}

export const realClock: Clock = {
  now: () => Date.now(),
  monotonic: () => performance.now(),
  schedule(delayMs, callback) {
    const timer = setTimeout(callback, delayMs);
    return () => clearTimeout(timer);
  },
};
