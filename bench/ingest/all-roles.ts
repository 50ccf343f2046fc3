// The load a whole relay takes: ingest, fan-out, delivery to one receiver per endpoint, recording with all indexes, and the
// API, in one process with embedded stores, as `npm start` runs it; compared with the ingest role alone in the same run.
// After each rate it reports what delivery and recorder have yet to read, and how long until every accepted event is delivered
// and found by the API. The first rate is offered for as long before, unmeasured, until the compilers have settled.
import { mkdirSync, writeFileSync } from "node:fs";
import { cpus, loadavg } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { startChild } from "../../test/support/child-process.ts";
import { makeRelayProcess, type RelayProcess } from "../../test/support/relay-process.ts";
import { compileForBench } from "../lib/compile.ts";
import type { LoadResult } from "../lib/load-generator.ts";
import { readOptions } from "../lib/read-options.ts";
import { sendLoad, type Server } from "../lib/servers.ts";
import { benchSecret } from "../lib/stripe-requests.ts";

const USAGE = `node scripts/build.js && npx tsx bench/ingest/all-roles.ts [--rates 500,1000,2000,0] [--seconds 10] [--connections 64]
--rates  offered requests a second; 0: as fast as they are answered`;

const values = readOptions(USAGE, {
  rates: { type: "string", default: "500,1000,2000,0" },
  seconds: { type: "string", default: "10" },
  connections: { type: "string", default: "64" },
});
const ENDPOINTS = 100;
const BODY_BYTES = 1_024;
const RECEIVER_PORTS = 20;
const ASK_AGAIN_MS = 100;
const connections = Number(values.connections);
const measureMs = Number(values.seconds) * 1_000;
const built = compileForBench();

interface Row {
  /** Null: as fast as requests are answered. */
  readonly offeredPerSecond: number | null;
  readonly acceptedPerSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly statuses: LoadResult["statuses"];
  /** Records that each consumer group had yet to read when the load ended. */
  readonly lag: Readonly<Record<string, number>>;
  /** From the end of the load until everything was delivered and found. */
  readonly drainedMs: number;
}

/** Creates an endpoint with one destination for each port. @returns the endpoints' tokens */
async function configure(relay: RelayProcess, ports: readonly number[]): Promise<string[]> {
  const project = await relay.client.projects.create({ name: "All roles" });
  const tokens: string[] = [];
  for (let index = 0; index < ENDPOINTS; index += 1) {
    const endpoint = await relay.client.endpoints.create(project.id, {
      name: `Bench ${index}`,
      provider: "stripe",
      secret: benchSecret(index),
    });
    await relay.client.destinations.create(endpoint.id, {
      name: `Bench ${index}`,
      receiver_url: `http://127.0.0.1:${ports[index % ports.length]}/${index}`,
    });
    tokens.push(new URL(endpoint.url).pathname.slice("/in/".length));
  }
  return tokens;
}

async function lagOf(relay: RelayProcess): Promise<Record<string, number>> {
  const answer = await fetch(`http://127.0.0.1:${relay.ports.ops}/metrics`);
  const lag: Record<string, number> = {};
  for (const [, labels = "", records] of (await answer.text()).matchAll(
    /^relay_log_lag_records\{(.*)\} (\d+)$/gm,
  )) {
    const group = /group="([^"]*)"/.exec(labels)?.[1] ?? "";
    lag[group] = (lag[group] ?? 0) + Number(records);
  }
  return lag;
}

/** Tells whether every accepted event is found and delivered. Requests whose answers were not awaited may be found too. */
async function isDrained(relay: RelayProcess, accepted: number): Promise<boolean> {
  const { total_events, by_attempt_status } = await relay.client.events.facets();
  const delivered = by_attempt_status.find(({ value }) => value === "delivered")?.count;
  return total_events >= accepted && delivered === total_events;
}

async function measure(
  relay: RelayProcess,
  tokens: readonly string[],
  { perSecond, before }: { readonly perSecond: number; readonly before: number },
): Promise<{ readonly row: Row; readonly accepted: number }> {
  const result = await sendLoad(built, {
    port: relay.ports.ingest,
    connections,
    ...(perSecond === 0 ? {} : { perSecond }),
    warmUpRequests: 0,
    warmUpMs: 0,
    measureMs,
    requests: { endpoints: ENDPOINTS, bodyBytes: BODY_BYTES, forgedShare: 0, tokens },
  });
  const endedMs = performance.now();
  const lag = await lagOf(relay);
  const accepted = before + (result.statuses["200"] ?? 0);
  while (!(await isDrained(relay, accepted))) await sleep(ASK_AGAIN_MS);
  return {
    accepted,
    row: {
      offeredPerSecond: perSecond === 0 ? null : perSecond,
      acceptedPerSecond: result.perSecond,
      p50Ms: result.p50Ms,
      p99Ms: result.p99Ms,
      statuses: result.statuses,
      lag,
      drainedMs: performance.now() - endedMs,
    },
  };
}

async function ingestAlone(): Promise<LoadResult> {
  await using server: Server = await startChild(join(built, "bench/ingest/relay-server.js"), []);
  return await sendLoad(built, {
    port: server.ready.port,
    connections,
    warmUpRequests: 30_000,
    warmUpMs: 3_000,
    measureMs,
    requests: { endpoints: ENDPOINTS, bodyBytes: BODY_BYTES, forgedShare: 0 },
  });
}

await using receivers = await startChild<number[]>(join(built, "bench/lib/receivers-child.js"), [
  String(RECEIVER_PORTS),
]);
const alone = await ingestAlone();
console.log(
  `ingest role alone: ${alone.perSecond.toFixed(0)} accepted/s, p50 ${alone.p50Ms.toFixed(1)} ms, p99 ${alone.p99Ms.toFixed(1)} ms`,
);
await using relay = await makeRelayProcess({ RELAY_PARTITIONS: "48", LOG_LEVEL: "info" });
await relay.start();
const tokens = await configure(relay, receivers.ready);
const rates = values.rates.split(",").map(Number);
const warmUp = await measure(relay, tokens, { perSecond: rates[0] ?? 0, before: 0 });
const rows: Row[] = [];
let before = warmUp.accepted;
for (const perSecond of rates) {
  const { row, accepted } = await measure(relay, tokens, { perSecond, before });
  before = accepted;
  rows.push(row);
  const lags = Object.entries(row.lag).map(([group, records]) => `${group} ${records}`);
  console.log(
    `all roles, ${row.offeredPerSecond ?? "as many as answered"}/s for ${values.seconds} s: ${row.acceptedPerSecond.toFixed(0)} accepted/s, p50 ${row.p50Ms.toFixed(1)} ms, p99 ${row.p99Ms.toFixed(1)} ms; lag at the end: ${lags.join(", ")}; all delivered and found after ${(row.drainedMs / 1_000).toFixed(1)} s, load ${loadavg()[0]?.toFixed(1)}, ${JSON.stringify(row.statuses)}`,
  );
}

const folder = fileURLToPath(new URL("../results/", import.meta.url));
mkdirSync(folder, { recursive: true });
const machine = { node: process.version, cpus: cpus().length, cpu: cpus()[0]?.model ?? "" };
writeFileSync(
  join(folder, "all-roles.json"),
  `${JSON.stringify({ machine, options: values, alone, rows }, null, 2)}\n`,
);
