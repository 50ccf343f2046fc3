// What slow senders cost honest ones: the latency of webhooks at a fixed rate over kept connections, without and beside
// 5,000 connections whose headers or bodies drip, on the built program with embedded stores.
//
//   node scripts/build.js && npx tsx bench/slow-connections.ts [limits of open files, default 256,65536] [slow connections, default 5000] [requests/s, default 200] [seconds, default 15]
import { readFileSync } from "node:fs";
import { loadavg } from "node:os";
import { setTimeout as delay } from "node:timers/promises";
import { Agent, request } from "undici";
import { makeRelayProcess } from "../test/support/relay-process.ts";
import { openSlowConnections, slowSenders } from "../test/support/slow-connections.ts";
import { percentile } from "./lib/stats.ts";

const [limits = "256,65536", slow = "5000", rate = "200", seconds = "15"] = process.argv.slice(2);

interface Latencies {
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly failed: number;
}

/** Open loop: a late answer does not put off the next request. */
async function measure(url: string, agent: Agent): Promise<Latencies> {
  const tookMs: number[] = [];
  let failed = 0;
  const running: Promise<void>[] = [];
  const startedMs = performance.now();
  for (let turn = 0; turn < Number(rate) * Number(seconds); turn += 1) {
    const dueMs = startedMs + (turn * 1_000) / Number(rate);
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

/** A limit above this process's own cannot be had: node has raised it to the most that it may be. */
const most = Number(
  /^Max open files\s+(\d+)/m.exec(readFileSync("/proc/self/limits", "latin1"))?.[1],
);

for (const wanted of limits.split(",").map(Number)) {
  const limit = Math.min(wanted, most);
  await using relay = await makeRelayProcess({}, [], { openFiles: limit });
  await relay.start();
  const project = await relay.client.projects.create({ name: "Slow" });
  const { url } = await relay.client.endpoints.create(project.id, {
    name: "Open",
    provider: "custom",
    verification_method: "none",
  });
  const agent = new Agent({ connections: 16, keepAliveTimeout: 60_000 });
  console.log(`ulimit -n ${limit}; load average ${loadavg()[0]?.toFixed(1)}`);
  await measure(url, agent);
  const before = await measure(url, agent);
  show(`honest alone, ${rate}/s`, before);
  {
    await using slowOnes = openSlowConnections({
      port: relay.ports.ingest,
      count: Number(slow),
      senders: slowSenders(new URL(url).pathname),
    });
    // The honest connections are kept while the slow ones come: a new one would compete with them for a place.
    while (slowOnes.opened() < Number(slow)) await measure(url, agent);
    const beside = await measure(url, agent);
    show(`beside ${slow} slow ones (${slowOnes.opened()} opened)`, beside);
    console.log(`  p99 ratio ${(beside.p99Ms / before.p99Ms).toFixed(2)}`);
  }
  await agent.close();
}
