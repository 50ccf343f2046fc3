// What slow senders cost honest ones: the latency of webhooks at a fixed rate over keep-alive connections, without and with
// 5,000 connections that drip their headers or bodies, against the built program with embedded stores.
import { readFileSync } from "node:fs";
import { loadavg } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { Agent, request } from "undici";
import { startChild } from "../test/support/child-process.ts";
import { makeRelayProcess } from "../test/support/relay-process.ts";
import { openSlowConnections, slowSenders } from "../test/support/slow-connections.ts";
import { readNumbers } from "./lib/read-options.ts";
import { percentile } from "./lib/stats.ts";

const USAGE =
  "node scripts/build.js && npx tsx bench/slow-connections.ts [limits of open files, default 256,65536] [slow connections, default 5000] [requests/s, default 200] [seconds, default 15]";
/** The argument that makes this process the slow senders: their thousands of sockets must not slow down the measuring one. */
const SENDERS = "senders";
const TELL_MS = 200;

interface Latencies {
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly failed: number;
}

const [first, ...rest] = process.argv.slice(2);
if (first === SENDERS) sendSlowly(rest);
else {
  const given = readNumbers(USAGE, {
    limits: "256,65536",
    slow: "5000",
    rate: "200",
    seconds: "15",
  });
  await runBench(given.limits, given.slow, Number(given.rate), Number(given.seconds));
}

/** Opens the slow connections and keeps reporting to the parent how many it has opened so far. */
function sendSlowly([port, path, count]: readonly string[]): void {
  const senders = slowSenders(path!);
  const slowOnes = openSlowConnections({ port: Number(port), count: Number(count), senders });
  setInterval(() => process.send?.(slowOnes.opened()), TELL_MS);
}

async function runBench(
  limits: string,
  slow: string,
  rate: number,
  seconds: number,
): Promise<void> {
  for (const wanted of limits.split(",").map(Number))
    await runAt(Math.min(wanted, maxOpenFiles()), slow, rate, seconds);
}

/** Returns the highest limit a child can get: this process's own, which Node.js has raised as far as it may. */
function maxOpenFiles(): number {
  return Number(/^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "latin1"))?.[1]);
}

async function runAt(
  openFiles: number,
  slow: string,
  rate: number,
  seconds: number,
): Promise<void> {
  await using relay = await makeRelayProcess({}, [], { openFiles });
  await relay.start();
  const project = await relay.client.projects.create({ name: "Slow" });
  const { url } = await relay.client.endpoints.create(project.id, {
    name: "Open",
    provider: "custom",
    verification_method: "none",
  });
  const agent = new Agent({ connections: 16, keepAliveTimeout: 60_000 });
  const measureHonest = (): Promise<Latencies> => measure(url, agent, rate, seconds);
  console.log(`ulimit -n ${openFiles}; load average ${loadavg()[0]?.toFixed(1)}`);
  await measureHonest();
  const alone = await measureHonest();
  show(`honest alone, ${rate}/s`, alone);
  const senders = [SENDERS, String(relay.ports.ingest), new URL(url).pathname, slow];
  {
    await using slowOnes = await startChild<number>(fileURLToPath(import.meta.url), senders, [
      "--import",
      "tsx",
    ]);
    let opened = slowOnes.ready;
    slowOnes.process.on("message", (count) => (opened = Number(count)));
    // Keep the honest connections open while the slow ones arrive: a new one would compete with them for a place.
    while (opened < Number(slow)) await measureHonest();
    const beside = await measureHonest();
    show(`beside ${slow} slow ones (${opened} opened)`, beside);
    console.log(`  p99 ratio ${(beside.p99Ms / alone.p99Ms).toFixed(2)}`);
  }
  await agent.close();
}

/** Measures in an open loop: a late answer does not delay the next request. */
async function measure(
  url: string,
  agent: Agent,
  rate: number,
  seconds: number,
): Promise<Latencies> {
  const tookMs: number[] = [];
  let failed = 0;
  const running: Promise<void>[] = [];
  const startedMs = performance.now();
  for (let turn = 0; turn < rate * seconds; turn += 1) {
    const dueMs = startedMs + (turn * 1_000) / rate;
    const waitMs = dueMs - performance.now();
    if (waitMs > 1) await delay(waitMs);
    running.push(
      request(url, { method: "POST", body: '{"honest":true}', dispatcher: agent })
        .then(async ({ statusCode, body }) => {
          await body.dump();
          if (statusCode !== 200) failed += 1;
          tookMs.push(performance.now() - dueMs);
        })
        .catch(() => void (failed += 1)),
    );
  }
  await Promise.all(running);
  const sorted = tookMs.toSorted((a, b) => a - b);
  return { p50Ms: percentile(sorted, 0.5), p99Ms: percentile(sorted, 0.99), failed };
}

function show(name: string, { p50Ms, p99Ms, failed }: Latencies): void {
  console.log(
    `  ${name.padEnd(44)} p50 ${p50Ms.toFixed(1)} ms  p99 ${p99Ms.toFixed(1)} ms  failed ${failed}`,
  );
}
