// npx tsx bench/ingest/run.ts [--connections 64,256] [--seconds 1.5] [--repetitions 3] [--body 1024] [--forged 0]
import { mkdirSync, writeFileSync } from "node:fs";
import { cpus } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { once } from "node:events";
import { startChild } from "../lib/child.ts";
import type { BenchChild } from "../lib/child.ts";
import { compileForBench } from "../lib/compile.ts";
import type { LoadOptions, LoadResult } from "../lib/load-generator.ts";
import { spreadOf } from "../lib/stats.ts";
import type { Spread } from "../lib/stats.ts";
import { drawBars } from "../lib/svg-chart.ts";

const ENDPOINTS = 100;
const WARM_UP_MS = 3_000;
const WARM_UP_REQUESTS = 30_000;

const { values } = parseArgs({
  options: {
    connections: { type: "string", default: "64,256" },
    seconds: { type: "string", default: "1.5" },
    repetitions: { type: "string", default: "3" },
    body: { type: "string", default: "1024" },
    forged: { type: "string", default: "0" },
    "no-log": { type: "boolean", default: false },
    profile: { type: "boolean", default: false },
    results: { type: "string", default: "ingest" },
  },
});

interface Row {
  readonly connections: number;
  readonly bare: Spread;
  readonly relay: Spread;
  readonly ratio: Spread;
  readonly bareP99Ms: Spread;
  readonly relayP99Ms: Spread;
  readonly bareClientCpu: Spread;
  readonly relayClientCpu: Spread;
  readonly bareCpuMicros: Spread;
  readonly relayCpuMicros: Spread;
  readonly statuses: LoadResult["statuses"];
}

const built = compileForBench();
const file = (name: string): string => join(built, "bench", name);

type Server = BenchChild<{ readonly port: number }>;

interface Measured extends LoadResult {
  /** Of the server's process, all its threads: says more than a rate when other work shares the machine. */
  readonly cpuMicrosPerRequest: number;
}

async function cpuMicrosOf(server: Server): Promise<number> {
  server.process.send("cpu");
  const [reply] = (await once(server.process, "message")) as [{ cpuMicros: number }];
  return reply.cpuMicros;
}

async function load(server: Server, connections: number): Promise<Measured> {
  const before = await cpuMicrosOf(server);
  const options: LoadOptions = {
    port: server.ready.port,
    connections,
    warmUpRequests: WARM_UP_REQUESTS,
    warmUpMs: WARM_UP_MS,
    measureMs: Number(values.seconds) * 1_000,
    requests: {
      endpoints: ENDPOINTS,
      bodyBytes: Number(values.body),
      forgedShare: Number(values.forged),
    },
  };
  const child = await startChild<LoadResult>(file("lib/load-generator.js"), [
    JSON.stringify(options),
  ]);
  await child[Symbol.asyncDispose]();
  const used = (await cpuMicrosOf(server)) - before;
  return { ...child.ready, cpuMicrosPerRequest: used / child.ready.answered };
}

async function measure(connections: number): Promise<Row> {
  const relayFlags = values["no-log"] ? ["--no-log"] : [];
  const profile = values.profile ? ["--cpu-prof", "--cpu-prof-dir=/tmp/ingest-prof"] : [];
  await using bareServer = await startChild<{ port: number }>(file("ingest/bare-server.js"), []);
  await using relayServer = await startChild<{ port: number }>(
    file("ingest/relay-server.js"),
    [...relayFlags, "--verbose"],
    profile,
  );
  const bare: Measured[] = [];
  const relay: Measured[] = [];
  // Alternating, so that what else the machine does hits both alike.
  for (let repetition = 0; repetition < Number(values.repetitions); repetition += 1) {
    bare.push(await load(bareServer, connections));
    relay.push(await load(relayServer, connections));
  }
  const pick = (
    results: Measured[],
    key: "perSecond" | "p99Ms" | "clientCpu" | "cpuMicrosPerRequest",
  ): Spread => spreadOf(results.map((result) => result[key]));
  return {
    connections,
    bare: pick(bare, "perSecond"),
    relay: pick(relay, "perSecond"),
    ratio: spreadOf(relay.map((result, index) => result.perSecond / (bare[index]?.perSecond ?? 1))),
    bareP99Ms: pick(bare, "p99Ms"),
    relayP99Ms: pick(relay, "p99Ms"),
    bareClientCpu: pick(bare, "clientCpu"),
    relayClientCpu: pick(relay, "clientCpu"),
    bareCpuMicros: pick(bare, "cpuMicrosPerRequest"),
    relayCpuMicros: pick(relay, "cpuMicrosPerRequest"),
    statuses: relay[0]?.statuses ?? {},
  };
}

function format(spread: Spread, digits: number): string {
  const { median, min, max } = spread;
  return `${median.toFixed(digits)} (${min.toFixed(digits)}–${max.toFixed(digits)})`;
}

const rows: Row[] = [];
for (const connections of values.connections.split(",").map(Number)) {
  const row = await measure(connections);
  rows.push(row);
  console.log(
    [
      `${connections} connections, ${values.body} byte Stripe webhooks over ${ENDPOINTS} endpoints; median (min–max) of ${values.repetitions}`,
      `  bare uWebSockets.js  ${format(row.bare, 0)} requests/s, p99 ${format(row.bareP99Ms, 1)} ms, ${format(row.bareCpuMicros, 1)} µs CPU each, load generator's CPU ${format(row.bareClientCpu, 2)}`,
      `  relay ingest         ${format(row.relay, 0)} acknowledged/s, p99 ${format(row.relayP99Ms, 1)} ms, ${format(row.relayCpuMicros, 1)} µs CPU each, load generator's CPU ${format(row.relayClientCpu, 2)}`,
      `  ratio                ${format(row.ratio, 2)}   answers ${JSON.stringify(row.statuses)}`,
    ].join("\n"),
  );
}

const results = fileURLToPath(new URL("../results/", import.meta.url));
mkdirSync(results, { recursive: true });
const machine = { node: process.version, cpus: cpus().length, cpu: cpus()[0]?.model ?? "" };
writeFileSync(
  join(results, `${values.results}.json`),
  `${JSON.stringify({ machine, options: values, rows }, null, 2)}\n`,
);
writeFileSync(
  join(results, `${values.results}.svg`),
  drawBars({
    title: `Ingest: signed ${values.body} byte webhooks, durable before the answer`,
    unit: "requests per second, median of runs (line: minimum to maximum)",
    groups: rows.map((row) => ({
      label: `${row.connections} connections: ratio ${row.ratio.median.toFixed(2)}`,
      bars: [
        { series: "bare uWebSockets.js", value: row.bare },
        { series: "relay ingest (verified, fsynced)", value: row.relay },
      ],
    })),
    footnote: `npx tsx bench/ingest/run.ts, Node ${machine.node}, ${machine.cpus} × ${machine.cpu}, load generator included`,
  }),
);
