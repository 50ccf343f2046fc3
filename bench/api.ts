// Latency of management requests at a fixed rate (open loop: a late answer does not delay the next request), against the
// built program in its own process with embedded stores, first filled with projects and endpoints. And of webhooks beside them,
// compared with those alone in the same run.
import { createHmac } from "node:crypto";
import { loadavg } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import pg from "pg";
import { Agent, request } from "undici";
import { attachEmbeddedPostgres } from "../src/embedded/pglite/start.ts";
import { makeRelayProcess, TEST_KEY } from "../test/support/relay-process.ts";
import { readNumbers } from "./lib/read-options.ts";
import { cpuMsOf } from "./lib/relay-figures.ts";
import { percentile } from "./lib/stats.ts";

const USAGE =
  "node scripts/build.js && npx tsx bench/api.ts [projects, default 1000] [endpoints each, default 20] [requests/s, default 200] [seconds, default 10]";
const given = readNumbers(USAGE, { projects: "1000", endpoints: "20", rate: "200", seconds: "10" });
const projects = Number(given.projects);
const endpointsEach = Number(given.endpoints);
const rate = Number(given.rate);
const seconds = Number(given.seconds);

const WEBHOOKS_PER_SECOND = 100;
const SECRET = "bench";

await using relay = await makeRelayProcess();
await relay.start();
const { client } = relay;
const baseUrl = `http://127.0.0.1:${relay.ports.api}`;
const agent = new Agent({ connections: 64 });

async function ask(method: "GET" | "POST" | "PATCH", path: string, json?: object) {
  const answer = await request(baseUrl + path, {
    method,
    dispatcher: agent,
    headers: {
      authorization: `Bearer ${TEST_KEY}`,
      ...(json === undefined ? {} : { "content-type": "application/json" }),
    },
    ...(json === undefined ? {} : { body: JSON.stringify(json) }),
  });
  const text = await answer.body.text();
  if (answer.statusCode >= 300) throw new Error(`${method} ${path}: ${answer.statusCode} ${text}`);
}

/** Creates one of each through the API and copies the rest from it in SQL: filling is not what is measured. */
async function fill(): Promise<{
  readonly projectIds: string[];
  readonly endpointId: string;
  readonly ingestPath: string;
}> {
  const project = await client.projects.create({ name: "Bench" });
  const endpoint = await client.endpoints.create(project.id, {
    name: "Bench",
    provider: "github",
    secret: SECRET,
  });
  await client.destinations.create(endpoint.id, {
    name: "Bench",
    receiver_url: "http://127.0.0.1:19999/",
  });
  const attached = await attachEmbeddedPostgres(relay.dataDir);
  if (attached === null) throw new Error("the relay serves no database");
  const { host, user, database } = attached;
  const sql = new pg.Client({ host, user, database });
  await sql.connect();
  const columns = async (table: string) =>
    (
      await sql.query<{ column_name: string }>(
        "SELECT column_name FROM information_schema.columns WHERE table_name = $1 AND is_generated = 'NEVER'",
        [table],
      )
    ).rows.map((row) => row.column_name);
  const copy = async (table: string, given: Record<string, string>, from: string) => {
    const names = await columns(table);
    const values = names.map((name) => given[name] ?? `t.${name}`);
    await sql.query(
      `INSERT INTO ${table} (${names.join(", ")}) SELECT ${values.join(", ")} FROM ${table} t, ${from} WHERE t.id = $1`,
      [table === "projects" ? project.id : endpoint.id],
    );
  };
  const ulid = (prefix: string, number: string) =>
    `'${prefix}_01JD5Z8A4V' || lpad((${number})::text, 16, '0')`;
  await copy(
    "projects",
    { id: ulid("prj", "n"), slug: "'bench-' || n" },
    `generate_series(1, ${projects}) n`,
  );
  await copy(
    "endpoints",
    {
      id: ulid("ep", `n * ${endpointsEach} + m`),
      project_id: ulid("prj", "n"),
      token: `'bench' || (n * ${endpointsEach} + m)`,
    },
    `generate_series(1, ${projects}) n, generate_series(1, ${endpointsEach}) m`,
  );
  await sql.query("ANALYZE");
  await sql.end();
  const at = (prefix: string, number: number) =>
    `${prefix}_01JD5Z8A4V${String(number).padStart(16, "0")}`;
  return {
    projectIds: Array.from({ length: projects }, (_, n) => at("prj", n + 1)),
    endpointId: endpoint.id,
    ingestPath: new URL(endpoint.url).pathname,
  };
}

function printLine(label: string, values: readonly number[]): void {
  const sorted = values.toSorted((a, b) => a - b);
  const [p50, p95, p99] = [0.5, 0.95, 0.99].map((share) => percentile(sorted, share).toFixed(1));
  console.log(
    `${label.padEnd(34)} p50 ${p50} ms  p95 ${p95} ms  p99 ${p99} ms  (${sorted.length})`,
  );
}

/** Calls `run` at a fixed rate. Resolves once all calls have ended, with how long each took from when it was due. */
async function atRate(
  perSecond: number,
  run: (turn: number) => Promise<void>,
): Promise<{ readonly turn: number; readonly tookMs: number }[]> {
  const running: Promise<{ turn: number; tookMs: number }>[] = [];
  const startedMs = performance.now();
  for (let turn = 0; turn < perSecond * seconds; turn += 1) {
    const dueMs = startedMs + (turn * 1_000) / perSecond;
    const waitMs = dueMs - performance.now();
    if (waitMs > 1) await delay(waitMs);
    running.push(run(turn).then(() => ({ turn, tookMs: performance.now() - dueMs })));
  }
  return Promise.all(running);
}

/** Sends signed webhooks to one endpoint for as long as a measurement takes. */
async function sendWebhooks(label: string): Promise<void> {
  const body = JSON.stringify({ ref: "refs/heads/main", filler: "x".repeat(900) });
  const signature = createHmac("sha256", SECRET).update(body).digest("hex");
  const answers = await atRate(WEBHOOKS_PER_SECOND, async () => {
    const answer = await request(`http://127.0.0.1:${relay.ports.ingest}${ingestPath}`, {
      method: "POST",
      dispatcher: agent,
      headers: { "x-hub-signature-256": `sha256=${signature}`, "x-github-event": "push" },
      body,
    });
    await answer.body.dump();
    if (answer.statusCode !== 200) throw new Error(`a webhook was answered ${answer.statusCode}`);
  });
  printLine(
    label,
    answers.map(({ tookMs }) => tookMs),
  );
}

type Operation = readonly [name: string, run: (turn: number) => Promise<void>];

async function measure(name: string, operations: readonly Operation[]): Promise<void> {
  const of = (turn: number): Operation => operations[turn % operations.length]!;
  const before = [cpuMsOf(relay, "process"), cpuMsOf(relay, "mainThread")] as const;
  const [answers] = await Promise.all([
    atRate(rate, (turn) => of(turn)[1](turn)),
    sendWebhooks(`webhooks beside ${name}`),
  ]);
  const each = (used: number) => (used / answers.length).toFixed(2);
  printLine(
    name,
    answers.map(({ tookMs }) => tookMs),
  );
  console.log(
    `  CPU of the relay ${each(cpuMsOf(relay, "process") - before[0])} ms per request, all threads, ${each(cpuMsOf(relay, "mainThread") - before[1])} of it the main one (webhooks included)`,
  );
  const labels = new Set(operations.map(([label]) => label));
  for (const label of labels)
    printLine(
      `  ${label}`,
      answers.filter(({ turn }) => of(turn)[0] === label).map(({ tookMs }) => tookMs),
    );
}

const { projectIds, endpointId, ingestPath } = await fill();
const pick = (turn: number) => projectIds[(turn * 7919) % projectIds.length] ?? "";
const pages = Math.ceil(projects / 50);
const reads: readonly Operation[] = [
  ["GET /projects (any page)", (turn) => ask("GET", `/projects?page=${1 + (turn % pages)}`)],
  ["GET …/endpoints (20 of 20)", (turn) => ask("GET", `/projects/${pick(turn)}/endpoints`)],
  ["GET /projects/{id}", (turn) => ask("GET", `/projects/${pick(turn)}`)],
  ["GET /endpoints/{id}", () => ask("GET", `/endpoints/${endpointId}`)],
];
const mix: readonly Operation[] = [
  ...reads,
  ...reads,
  [
    "PATCH /endpoints/{id}",
    (turn) => ask("PATCH", `/endpoints/${endpointId}`, { name: `n${turn}` }),
  ],
  ["POST /projects", (turn) => ask("POST", "/projects", { name: `made ${Date.now()} ${turn}` })],
];
// Warm up the compilers and caches.
for (let turn = 0; turn < 300; turn += 1) await mix[turn % mix.length]![1](turn);

console.log(
  `${projects} projects × ${endpointsEach} endpoints, ${rate} requests/s for ${seconds} s; load average before ${loadavg()[0]?.toFixed(1)}`,
);
await sendWebhooks("webhooks alone");
await measure("reads", reads);
await measure("reads and 2 of 10 writes", mix);
console.log(`load average after ${loadavg()[0]?.toFixed(1)}`);
await agent.close();
