/**
 * Deliveries on the embedded log: log → fan-out → lanes → undici → receivers in their own process.
 * Prints deliveries/s for 1, 10 and 1,000 destinations, and the latency
 * from the durable event to the answered delivery at a steady 200 events/s.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { cpus, loadavg } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { keepCollectorAside } from "../src/app/garbage-collection.ts";
import { makeDeliveryRig } from "../test/support/delivery-rig.ts";
import { startAnsweringReceivers } from "./lib/answering-receivers.ts";
import { startChild } from "../test/support/child-process.ts";
import { compileForBench } from "./lib/compile.ts";
import { readNumbers } from "./lib/read-options.ts";
import { percentile } from "./lib/stats.ts";

const USAGE = "npx tsx bench/delivery.ts [seconds, default 5]";
const MAX_OUTSTANDING = 2_000;
const BODY_BYTES = 1_000;

/** There is a receiver port per destination, up to this many. */
const RECEIVER_PORTS = 50;
const WARM_UP_MS = 2_000;
const STEADY_EVENTS = 400;

interface Result {
  readonly destinations: number;
  readonly perSecond: number;
  /** CPU of the delivering process, all threads. */
  readonly cpuMicrosEach: number;
  readonly deferred: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

const [, , role, ...args] = process.argv;
if (role === "receiver") process.send?.(await startAnsweringReceivers(RECEIVER_PORTS));
else if (role === "measure") {
  keepCollectorAside();
  const [count = 1, seconds = 5, ...ports] = args.map(Number);
  process.send?.(await measure(ports, count, seconds));
  process.exit(0);
} else await runBench(Number(readNumbers(USAGE, { seconds: "5" }).seconds));

async function runBench(seconds: number): Promise<void> {
  const self = join(compileForBench(), "bench/delivery.js");
  await using receiver = await startChild<number[]>(self, ["receiver"]);
  const results: Result[] = [];
  for (const count of [1, 10, 1_000]) {
    const ports = receiver.ready.slice(0, count).map(String);
    const child = await startChild<Result>(self, [
      "measure",
      String(count),
      String(seconds),
      ...ports,
    ]);
    results.push(child.ready);
    const { destinations, perSecond, cpuMicrosEach, deferred, p50Ms, p99Ms } = child.ready;
    console.log(
      `${String(destinations).padStart(5)} destinations: ${perSecond} deliveries/s, ${cpuMicrosEach} µs CPU each (${deferred} put off); event durable → answered p50 ${p50Ms.toFixed(1)} ms, p99 ${p99Ms.toFixed(1)} ms; load ${loadavg()[0]?.toFixed(1)}`,
    );
  }
  const machine = { node: process.version, cpus: cpus().length, cpu: cpus()[0]?.model ?? "" };
  const folder = fileURLToPath(new URL("results/", import.meta.url));
  mkdirSync(folder, { recursive: true });
  writeFileSync(
    join(folder, "delivery.json"),
    `${JSON.stringify({ machine, results }, null, 2)}\n`,
  );
}

async function measure(ports: readonly number[], count: number, seconds: number): Promise<Result> {
  const latenciesMs: number[] = [];
  const ingestedAtMs = new Map<string, number>();
  await using rig = await makeDeliveryRig({
    timeoutMs: 15_000,
    bodyBytes: BODY_BYTES,
    onReply: ({ headers }) => {
      const id = headers.find(([name]) => name === "webhook-id")?.[1] ?? "";
      const ingestedMs = ingestedAtMs.get(id);
      if (ingestedMs !== undefined) latenciesMs.push(performance.now() - ingestedMs);
    },
  });
  // One endpoint per destination.
  for (let index = 0; index < count; index += 1)
    rig.configure(`dst_${index}`, {
      endpointId: `ep_${index}`,
      receiverUrl: `http://127.0.0.1:${ports[index % ports.length]}/${index}`,
    });
  const delivered = (): number => rig.ended.get("delivered") ?? 0;
  let ingested = 0;
  const feedUntil = async (endAtMs: number): Promise<void> => {
    while (performance.now() < endAtMs) {
      if (ingested - delivered() > MAX_OUTSTANDING) await sleep(1);
      else await rig.ingestEach(Array.from({ length: 100 }, () => `ep_${ingested++ % count}`));
    }
  };
  await feedUntil(performance.now() + WARM_UP_MS);
  const cpuBefore = process.cpuUsage();
  const deliveredBefore = delivered();
  const began = performance.now();
  await feedUntil(began + seconds * 1_000);
  const counted = delivered() - deliveredBefore;
  const elapsedSeconds = (performance.now() - began) / 1_000;
  const { user, system } = process.cpuUsage(cpuBefore);
  while (delivered() < ingested) await sleep(5);

  for (let index = 0; index < STEADY_EVENTS; index += 1) {
    const [event] = await rig.ingest(`ep_${index % count}`, 1);
    ingestedAtMs.set(event!.id, performance.now());
    await sleep(5);
  }
  await sleep(200);
  latenciesMs.sort((one, other) => one - other);
  return {
    destinations: count,
    perSecond: Math.round(counted / elapsedSeconds),
    cpuMicrosEach: Math.round((user + system) / counted),
    deferred: rig.deferred(),
    p50Ms: percentile(latenciesMs, 0.5),
    p99Ms: percentile(latenciesMs, 0.99),
  };
}
