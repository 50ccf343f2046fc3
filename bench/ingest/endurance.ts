// How the ingest role on the embedded log withstands minutes of load, and a burst.
// Soak: reports memory, event loop delay and the slowest request. Burst: steady requests at half of the rate reached, plus many
// connections for ten seconds, each sending as fast as it is answered; then `kill -9`, and the log is read: every request that
// was answered 200 must be there.
import { once } from "node:events";
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { openLmdbLog } from "../../src/adapters/lmdb/open-lmdb-log.ts";
import { makeSystemClock } from "../../src/app/system-clock.ts";
import { startChild } from "../../test/support/child-process.ts";
import { makeSilentLogger } from "../../test/support/silent-logger.ts";
import type { BurstOptions, BurstResult } from "../lib/burst-generator.ts";
import { compileForBench } from "../lib/compile.ts";
import { endWithUsage, readOptions } from "../lib/read-options.ts";
import type { Usage } from "../lib/report-usage.ts";
import { groupOf, load, sendLoad, usageOf, type Server } from "../lib/servers.ts";

const SETTLE_MS = 60_000;
const SAMPLE_MS = 10_000;
/** A slope takes two samples after the first minute. */
const MIN_SOAK_SECONDS = (SETTLE_MS + 3 * SAMPLE_MS) / 1_000;
const USAGE = `npx tsx bench/ingest/endurance.ts [--soak 600] [--share 0.8] [--burst 2000] [--connections 64]
--soak   seconds at --share of the rate reached right before, ${MIN_SOAK_SECONDS} or more, since the first minute does not count; 0: none
--burst  connections of the burst; 0: none`;

const values = readOptions(USAGE, {
  soak: { type: "string", default: "600" },
  share: { type: "string", default: "0.8" },
  burst: { type: "string", default: "2000" },
  connections: { type: "string", default: "64" },
});
const soakSeconds = Number(values.soak);
if (soakSeconds > 0 && soakSeconds < MIN_SOAK_SECONDS)
  endWithUsage(USAGE, `--soak takes 0, or ${MIN_SOAK_SECONDS} and more, not ${values.soak}`);
const PARTITIONS = 48;
const BEFORE_SECONDS = 5;
const BURST_SECONDS = 10;
const AFTER_SECONDS = 10;
const requests = { endpoints: 100, bodyBytes: 1_024, forgedShare: 0 };
const connections = Number(values.connections);
const built = compileForBench();

async function withServer<T>(work: (server: Server, dir: string) => Promise<T>): Promise<T> {
  const dir = mkdtempSync(join(tmpdir(), "relay-endurance-"));
  try {
    await using server: Server = await startChild(join(built, "bench/ingest/relay-server.js"), [
      "--dir",
      dir,
    ]);
    return await work(server, dir);
  } finally {
    rmSync(dir, { recursive: true, force: true });
  }
}

async function maximum(server: Server): Promise<number> {
  const { perSecond } = await load(built, groupOf(server), {
    connections,
    measureMs: 3_000,
    requests,
  });
  return perSecond;
}

async function soak(seconds: number): Promise<object> {
  return withServer(async (server) => {
    const most = await maximum(server);
    const perSecond = most * Number(values.share);
    const samples: (Usage & { readonly atMs: number })[] = [];
    const startedMs = performance.now();
    const sampler = setInterval(() => {
      void usageOf(server).then((usage) =>
        samples.push({ ...usage, atMs: performance.now() - startedMs }),
      );
    }, SAMPLE_MS);
    // Starts the generator directly rather than through `load`, which would also query the CPU that is sampled here.
    const result = await sendLoad(built, {
      port: server.ready.port,
      connections,
      perSecond,
      measureMs: seconds * 1_000,
      warmUpMs: 1_000,
      warmUpRequests: 10_000,
      requests,
    });
    clearInterval(sampler);
    const later = samples.filter(({ atMs }) => atMs > SETTLE_MS);
    return {
      seconds,
      maximumPerSecond: Math.round(most),
      offeredPerSecond: Math.round(perSecond),
      acceptedPerSecond: Math.round(result.perSecond),
      statuses: result.statuses,
      p50Ms: result.p50Ms,
      p99Ms: result.p99Ms,
      slowestMs: result.maxMs,
      loopDelayP99Ms: Math.max(...later.map(({ loopDelayP99Ms }) => loopDelayP99Ms)),
      loopDelayMaxMs: Math.max(...later.map(({ loopDelayMaxMs }) => loopDelayMaxMs)),
      megabytes: later.map(({ anonymousBytes }) => Math.round(anonymousBytes / 1_048_576)),
      megabytesPerMinute: slopeOf(later) / 1_048_576,
    };
  });
}

/** Returns the growth in bytes a minute, by least squares. */
function slopeOf(samples: readonly { readonly atMs: number; readonly anonymousBytes: number }[]) {
  const mean = (pick: (sample: (typeof samples)[number]) => number): number =>
    samples.reduce((sum, sample) => sum + pick(sample), 0) / samples.length;
  const [meanMs, meanBytes] = [mean(({ atMs }) => atMs), mean((sample) => sample.anonymousBytes)];
  const above = samples.reduce(
    (sum, { atMs, anonymousBytes }) => sum + (atMs - meanMs) * (anonymousBytes - meanBytes),
    0,
  );
  const below = samples.reduce((sum, { atMs }) => sum + (atMs - meanMs) ** 2, 0);
  return (above / below) * 60_000;
}

async function burst(burstConnections: number): Promise<object> {
  const most = await withServer(maximum);
  return withServer(async (server, dir) => {
    const options: BurstOptions = {
      port: server.ready.port,
      requests,
      steadyConnections: connections,
      steadyPerSecond: most / 2,
      burstConnections,
      warmUpSeconds: 4,
      beforeSeconds: BEFORE_SECONDS,
      burstSeconds: BURST_SECONDS,
      afterSeconds: AFTER_SECONDS,
    };
    const child = await startChild<BurstResult>(join(built, "bench/lib/burst-generator.js"), [
      JSON.stringify(options),
    ]);
    await child[Symbol.asyncDispose]();
    await kill(server);
    const recordsFound = await countRecords(dir);
    const { seconds, accepted, cut } = child.ready;
    for (const [index, second] of seconds.entries())
      console.log(
        `  second ${String(index - BEFORE_SECONDS).padStart(3)}: ${second.accepted} accepted, ${second.refused} refused, p50 ${second.p50Ms.toFixed(1)}, p99 ${second.p99Ms.toFixed(1)}, slowest ${second.maxMs.toFixed(1)} ms`,
      );
    return {
      maximumPerSecond: Math.round(most),
      burstConnections,
      accepted,
      cut,
      recordsFound,
      lost: Math.max(0, accepted - recordsFound),
      seconds,
    };
  });
}

async function kill(server: Server): Promise<void> {
  const exited = once(server.process, "exit");
  server.process.kill("SIGKILL");
  await exited;
}

/** Counts the events in a log's files. */
async function countRecords(dir: string): Promise<number> {
  const clock = makeSystemClock();
  const logger = makeSilentLogger();
  await using log = await openLmdbLog({
    dir,
    partitions: PARTITIONS,
    retentionMs: 0,
    clock,
    logger,
  });
  const ends: number[] = [];
  await using _consumer = await log.consume({
    group: "count",
    topics: ["events"],
    onAssigned: async (partition) => {
      ends.push(await partition.endOffset("events"));
    },
    onRevoked: async () => undefined,
    onRecords: () => undefined,
    onError: (error) => {
      throw error;
    },
  });
  while (ends.length < PARTITIONS) await sleep(50);
  return ends.reduce((sum, end) => sum + end, 0);
}

const report: Record<string, unknown> = {};
if (Number(values.burst) > 0) {
  const { seconds, ...summary } = (await burst(Number(values.burst))) as { seconds: unknown };
  console.log("burst", summary, `load ${loadavg()[0]?.toFixed(1)}`);
  report["burst"] = { ...summary, seconds };
}
if (soakSeconds > 0) {
  report["soak"] = await soak(soakSeconds);
  console.log("soak", report["soak"], `load ${loadavg()[0]?.toFixed(1)}`);
}
const folder = fileURLToPath(new URL("../results/", import.meta.url));
mkdirSync(folder, { recursive: true });
writeFileSync(join(folder, "endurance.json"), `${JSON.stringify(report, null, 2)}\n`);
