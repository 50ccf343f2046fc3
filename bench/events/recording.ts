/**
 * How fast a store records while it maintains all indexes: the recorder's own insert path, two batches in flight, events
 * generated beforehand. `npx tsx bench/events/recording.ts [--seconds 60] [--payload-bytes 400] [--at-merge]` prints every
 * ten seconds what was inserted and how many parts there are, which must not keep growing.
 */
import { mkdtemp, rm } from "node:fs/promises";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { connectClickHouse } from "../../src/adapters/clickhouse/connect.ts";
import { makeEventStoreWriter } from "../../src/adapters/clickhouse/insert.ts";
import { migrateClickHouse } from "../../src/adapters/clickhouse/migrate.ts";
import type { EventRow } from "../../src/domain/event-store.ts";
import type { EventRecord } from "../../src/domain/event.ts";
import { makeIdGenerator } from "../../src/domain/ids.ts";
import { startEmbeddedClickHouse } from "../../src/embedded/chdb/start-embedded-clickhouse.ts";
import { makeTokenizer } from "../../src/pipeline/record/event-tokens.ts";
import { makeSilentLogger } from "../../test/support/silent-logger.ts";
import { readOptions } from "../lib/read-options.ts";
import { generateEvents } from "./generate.ts";

const USAGE = `npx tsx bench/events/recording.ts [--seconds 60] [--payload-bytes N] [--at-merge]
--payload-bytes  about so many in every event; without it the generator's mix
--at-merge       inserts build no index, merges do`;

/** The recorder's batch size under load. */
const BATCH_ROWS = 50_000;
const BATCH_BYTES = 32 * 1024 * 1024;
const IN_FLIGHT = 2;
const POOL_EVENTS = 40_000;
const REPORT_EVERY_MS = 10_000;

const values = readOptions(USAGE, {
  seconds: { type: "string", default: "60" },
  "payload-bytes": { type: "string" },
  "at-merge": { type: "boolean", default: false },
});

async function main(): Promise<void> {
  const bytes = values["payload-bytes"];
  const options = { seed: 2, count: POOL_EVENTS, endMs: Date.now(), days: 1 };
  const pool = [
    ...generateEvents(bytes === undefined ? options : { ...options, payloadBytes: Number(bytes) }),
  ].map(({ event }) => event);
  const dir = await mkdtemp(join(tmpdir(), "bench-recording-"));
  try {
    await using embedded = await startEmbeddedClickHouse({
      dataDir: dir,
      logger: makeSilentLogger(),
    });
    const setting = values["at-merge"] ? "?ch_materialize_skip_indexes_on_insert=0" : "";
    const client = connectClickHouse(`${embedded.url}${setting}`);
    await migrateClickHouse(client, { retentionDays: 30 });
    const countParts = async (): Promise<string> => {
      const answer = await client.query({
        query:
          "SELECT count() AS parts, sum(rows) AS rows, sum(bytes_on_disk) AS bytes FROM system.parts WHERE active AND table = 'events'",
        format: "JSONEachRow",
      });
      const [row] = await answer.json<{ parts: number; rows: number; bytes: number }>();
      return `${row?.parts} parts, ${((row?.bytes ?? 0) / 1e6).toFixed(0)} MB`;
    };
    await record(makeEventStoreWriter(client), pool, countParts);
    await client.close();
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

async function record(
  writer: ReturnType<typeof makeEventStoreWriter>,
  pool: readonly EventRecord[],
  countParts: () => Promise<string>,
): Promise<void> {
  const tokenize = makeTokenizer();
  const newId = makeIdGenerator();
  const startedMs = performance.now();
  const endMs = startedMs + Number(values.seconds) * 1_000;
  let [events, payloadBytes, batches, next] = [0, 0, 0, 0];
  let [reportedMs, reportedEvents, reportedBytes] = [startedMs, 0, 0];
  const takeBatch = (): { rows: EventRow[]; batchBytes: number } => {
    const rows: EventRow[] = [];
    let batchBytes = 0;
    while (rows.length < BATCH_ROWS && batchBytes < BATCH_BYTES) {
      const receivedAtMs = Date.now();
      const event = { ...pool[next]!, id: newId("event", receivedAtMs), receivedAtMs };
      next = (next + 1) % pool.length;
      rows.push({ event, addTokens: (tokens) => tokenize(event, tokens) });
      batchBytes += event.body.length;
    }
    return { rows, batchBytes };
  };
  const insertUntilEnd = async (): Promise<void> => {
    while (performance.now() < endMs) {
      const { rows, batchBytes } = takeBatch();
      batches += 1;
      await writer.insertEvents(rows, `batch-${batches}`);
      events += rows.length;
      payloadBytes += batchBytes;
      const nowMs = performance.now();
      if (nowMs - reportedMs < REPORT_EVERY_MS) continue;
      const seconds = (nowMs - reportedMs) / 1_000;
      const rate = (events - reportedEvents) / seconds;
      const megabytes = (payloadBytes - reportedBytes) / 1e6 / seconds;
      [reportedMs, reportedEvents, reportedBytes] = [nowMs, events, payloadBytes];
      console.log(
        `${((nowMs - startedMs) / 1_000).toFixed(0)} s: ${rate.toFixed(0)} events/s, ${megabytes.toFixed(1)} MB/s; ${await countParts()}`,
      );
    }
  };
  await Promise.all(Array.from({ length: IN_FLIGHT }, insertUntilEnd));
  const seconds = (performance.now() - startedMs) / 1_000;
  console.log(
    `all: ${(events / seconds).toFixed(0)} events/s, ${(payloadBytes / 1e6 / seconds).toFixed(1)} MB/s of payload, ${(payloadBytes / events).toFixed(0)} bytes each; ${await countParts()}; load ${loadavg()[0]?.toFixed(1)}`,
  );
}

await main();
