import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { openLmdbLog } from "../src/adapters/lmdb/open-lmdb-log.ts";
import type { NewRecord } from "../src/domain/log.ts";
import { systemClock } from "../test/support/log-fakes.ts";
import { silentLogger } from "../test/support/silent-logger.ts";
import { readNumbers } from "./lib/read-options.ts";

/**
 * Durable appends of 1 KB records to the embedded log.
 * "appends" is how many are in flight at a time, "group" how many records one append call carries.
 */
const USAGE = "npx tsx bench/log.ts [seconds per row, default 2]";
const secondsPerRow = Number(readNumbers(USAGE, { seconds: "2" }).seconds);
const value = Buffer.alloc(1024, "x");

interface Figures {
  readonly recordsPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

async function measure(appends: number, group: number): Promise<Figures> {
  const dir = await mkdtemp(join(process.env["RELAY_BENCH_DIR"] ?? tmpdir(), "relay-bench-"));
  const log = await openLmdbLog({
    dir,
    partitions: 48,
    retentionMs: 0,
    trimIntervalMs: 1_000,
    clock: systemClock,
    logger: silentLogger,
  });
  const latencies: number[] = [];
  let next = 0;
  const make = (): NewRecord[] =>
    Array.from({ length: group }, () => ({ topic: "events", key: `ep_${next++ % 100}`, value }));
  const endMs = performance.now() + secondsPerRow * 1_000;
  const startMs = performance.now();
  await Promise.all(
    Array.from({ length: appends }, async () => {
      while (performance.now() < endMs) {
        const batch = make();
        const atMs = performance.now();
        await log.append(batch);
        latencies.push(performance.now() - atMs);
      }
    }),
  );
  const seconds = (performance.now() - startMs) / 1_000;
  await log[Symbol.asyncDispose]();
  await rm(dir, { recursive: true });
  latencies.sort((a, b) => a - b);
  const at = (share: number) => latencies[Math.floor((latencies.length - 1) * share)] ?? 0;
  return {
    recordsPerSecond: (latencies.length * group) / seconds,
    p50Ms: at(0.5),
    p99Ms: at(0.99),
  };
}

console.log("appends  group  records/s   p50 ms   p99 ms");
for (const [appends, group] of [
  [1, 1],
  [64, 1],
  [500, 1],
  [2, 500],
  [4, 500],
] as const) {
  const { recordsPerSecond, p50Ms, p99Ms } = await measure(appends, group);
  const cells = [
    String(appends).padStart(7),
    String(group).padStart(6),
    Math.round(recordsPerSecond).toLocaleString("en").padStart(10),
    p50Ms.toFixed(2).padStart(8),
    p99Ms.toFixed(2).padStart(8),
  ];
  console.log(cells.join(" "));
}
