import { mkdir, writeFile } from "node:fs/promises";
import { cpus } from "node:os";
import { connectClickHouse } from "../../src/adapters/clickhouse/connect.ts";
import { makeEventStoreWriter } from "../../src/adapters/clickhouse/insert.ts";
import { connectLookups } from "../../src/adapters/clickhouse/lookups.ts";
import { migrateClickHouse } from "../../src/adapters/clickhouse/migrate.ts";
import { makeEventStoreReader } from "../../src/adapters/clickhouse/queries.ts";
import {
  COARSE_TEXT_FILTER,
  FINE_TEXT_FILTER,
  LEAVES_FILTERS,
} from "../../src/adapters/clickhouse/schema.ts";
import { makeSystemClock } from "../../src/app/system-clock.ts";
import { startEmbeddedClickHouse } from "../../src/embedded/chdb/start-embedded-clickhouse.ts";
import { makeEventQueries } from "../../src/pipeline/query/make-event-queries.ts";
import { makeSilentLogger } from "../../test/support/silent-logger.ts";
import { readOptions } from "../lib/read-options.ts";
import { drawLatencies } from "../lib/svg-rows.ts";
import { fill } from "./fill.ts";
import { ASKED_ORG } from "./generate.ts";
import { makeQuestions, makeSearches } from "./questions.ts";
import { formatRow, measure, type Measured } from "./measure.ts";
import { recordBeside } from "./record-beside.ts";

const USAGE = `npx tsx bench/events/main.ts [--events 1000000] [--days 10] [--dir DIR] [--skip-fill] [--bulk] [--repeat 20]
  [--payload-bytes 400] [--beside 0] [--by-match-count] [--out bench/results/events.json]
Fills an embedded ClickHouse in DIR (kept) and asks every kind of question. --bulk leaves the indexes to the merge of
the closed days at the end: the same store in half of the time. --beside records so many events a second into the last day
while the questions are asked. --by-match-count asks for totals and facets of free texts that find more and more, instead.`;

const values = readOptions(USAGE, {
  events: { type: "string", default: "1000000" },
  days: { type: "string", default: "10" },
  dir: { type: "string", default: ".bench-events" },
  repeat: { type: "string", default: "20" },
  "payload-bytes": { type: "string" },
  beside: { type: "string", default: "0" },
  "skip-fill": { type: "boolean", default: false },
  "by-match-count": { type: "boolean", default: false },
  bulk: { type: "boolean", default: false },
  out: { type: "string", default: "bench/results/events.json" },
});

async function main(): Promise<void> {
  const logger = makeSilentLogger();
  await using embedded = await startEmbeddedClickHouse({ dataDir: values.dir, logger });
  // Merging a day of a million events takes minutes.
  const client = connectClickHouse(`${embedded.url}?request_timeout=3600000`);
  const lookups = connectLookups(embedded.url);
  const rows = async <T>(query: string): Promise<T[]> =>
    (await client.query({ query, format: "JSONEachRow" })).json<T>();
  try {
    await migrateClickHouse(client, { retentionDays: 3_650 });
    const alter = (change: string) => client.command({ query: `ALTER TABLE events ${change}` });
    const report: Record<string, unknown> = {};
    if (!values["skip-fill"]) {
      const filling = connectClickHouse(
        values.bulk ? `${embedded.url}?ch_materialize_skip_indexes_on_insert=0` : embedded.url,
      );
      if (values.bulk) await alter("MODIFY SETTING materialize_skip_indexes_on_merge = 0");
      // A fixed end gives the same data in every run, whatever the date.
      const endMs = Date.UTC(2026, 10, 1);
      const options = { seed: 1, count: Number(values.events), endMs, days: Number(values.days) };
      const bytes = values["payload-bytes"];
      const result = await fill(
        makeEventStoreWriter(filling),
        bytes === undefined ? options : { ...options, payloadBytes: Number(bytes) },
        (events) => process.stderr.write(`\r${events} events`),
      );
      await filling.close();
      report["fill"] = result;
      console.log(
        `\nfilled ${result.events} events, ${result.attempts} attempts, ${(result.payloadBytes / 1e6).toFixed(0)} MB of payload in ${result.seconds.toFixed(0)} s`,
      );
    }
    if (values.bulk) await alter("RESET SETTING materialize_skip_indexes_on_merge");
    // A partly filled store ends earlier.
    const [newest] = await rows<{ ms: string }>(
      "SELECT toUnixTimestamp64Milli(max(received_at)) AS ms FROM events",
    );
    const endMs = Number(newest!.ms) + 1;
    // The store does this by itself for days that have received nothing for four hours.
    const days = await rows<{ table: string; partition: string }>(
      `SELECT table, partition FROM system.parts WHERE active AND database = currentDatabase() AND table != 'schema_migrations'
       GROUP BY table, partition HAVING (count() > 1 OR ${values.bulk}) AND partition != '${lastDay(endMs)}'`,
    );
    const mergedAt = performance.now();
    for (const { table, partition } of days)
      await client.command({ query: `OPTIMIZE TABLE ${table} PARTITION '${partition}' FINAL` });
    if (values.bulk)
      for (const index of [
        COARSE_TEXT_FILTER.name,
        FINE_TEXT_FILTER.name,
        ...LEAVES_FILTERS.map(({ name }) => name),
      ])
        await client.command({
          query: `ALTER TABLE events MATERIALIZE INDEX ${index} IN PARTITION '${lastDay(endMs)}'`,
          clickhouse_settings: { mutations_sync: "2" },
        });
    const mergeSeconds = (performance.now() - mergedAt) / 1_000;
    console.log(`${days.length} closed days merged and indexed in ${mergeSeconds.toFixed(0)} s`);
    report["mergeSeconds"] = mergeSeconds;
    const disk = await rows<{
      table: string;
      parts: number;
      bytes: number;
      indexes: number;
      rows: number;
    }>(
      `SELECT table, count() AS parts, sum(bytes_on_disk) AS bytes, sum(secondary_indices_compressed_bytes) AS indexes, sum(rows) AS rows
       FROM system.parts WHERE active AND database = currentDatabase() AND table != 'schema_migrations' GROUP BY table ORDER BY table`,
    );
    const [raw] = await rows<{ bytes: number }>("SELECT sum(payload_size) AS bytes FROM events");
    for (const table of disk)
      console.log(
        `${table.table}: ${table.rows} rows in ${table.parts} parts, ${(table.bytes / 1e6).toFixed(0)} MB (indexes ${(table.indexes / 1e6).toFixed(0)}), ${(table.bytes / table.rows).toFixed(0)} bytes a row, ${(table.bytes / raw!.bytes).toFixed(3)} of the raw payload`,
      );
    report["disk"] = { tables: disk, payloadBytes: raw!.bytes };
    const ids = await rows<{ id: string }>(
      `SELECT id FROM events WHERE org_id = '${ASKED_ORG}' ORDER BY cityHash64(id) LIMIT 50`,
    );
    const [sample] = await rows<{ value: string }>(
      `SELECT JSONExtractString(payload, 'id') AS value FROM events WHERE org_id = '${ASKED_ORG}' AND value != '' ORDER BY received_at LIMIT 1`,
    );
    // Queries run as if it were the time of the last event.
    const clock = { ...makeSystemClock(), now: () => endMs };
    const store = makeEventStoreReader(client, undefined, clock, lookups.ask);
    const queries = makeEventQueries({ store, clock, destinationsOf: () => ({ kind: "missing" }) });
    const questions = values["by-match-count"]
      ? makeSearches(queries, endMs)
      : makeQuestions(
          queries,
          {
            page: (filter, offset) =>
              store.page(
                ASKED_ORG,
                { ...filter, terms: filter.q === undefined ? [] : [filter.q] },
                { offset, limit: 50 },
              ),
          },
          {
            eventIds: ids.map((row) => row.id),
            field: { path: "id", value: sample?.value ?? "none" },
            endMs,
          },
        );
    const measured: Measured[] = [];
    const perSecond = Number(values.beside);
    await using _recording =
      perSecond === 0 ? null : recordBeside(makeEventStoreWriter(client), { perSecond, endMs });
    for (const question of questions) {
      const result = await measure(question, Number(values.repeat));
      measured.push(result);
      console.log(formatRow(result));
    }
    report["questions"] = measured;
    const eventCount = disk.find(({ table }) => table === "events")?.rows ?? 0;
    await mkdir("bench/results", { recursive: true });
    await writeFile(values.out, `${JSON.stringify(report, null, 2)}\n`);
    const chart = drawLatencies(
      `${eventCount.toLocaleString("en")} events: every kind of question`,
      measured.map(({ name, p50Ms, p95Ms, targetMs }) => ({
        label: name,
        p50Ms,
        p95Ms,
        aimMs: targetMs,
      })),
      `npx tsx bench/events/main.ts, Node ${process.version}, ${cpus().length} × ${cpus()[0]?.model ?? ""}`,
    );
    await writeFile(values.out.replace(/\.json$/, ".svg"), chart);
  } finally {
    await Promise.all([client.close(), lookups.close()]);
  }
}

/** Returns the day that is still being written to. */
function lastDay(endMs: number): string {
  return new Date(endMs - 1).toISOString().slice(0, 10);
}

await main();
