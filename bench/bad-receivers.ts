/**
 * What receivers that misbehave cost the others, on the embedded log and the real sender; receivers in a process of
 * their own. `npx tsx bench/bad-receivers.ts [rounds]`: each figure beside the same without them, rounds in turn.
 *
 *   1. 2,000 destinations, as many deliveries as go through; then 1,000 of them accept and never answer.
 *   2. 42 destinations at a steady rate; then 8 more beside them: one never answers, one drips a byte a second, one
 *      sends a gigabyte, one redirects, three have bad certificates, one speaks no TLS.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { once } from "node:events";
import { loadavg } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { makeDeliveryRig } from "../test/support/delivery-rig.ts";
import {
  serveHostileReceivers,
  type HostileReceivers,
  type Trespasses,
} from "../test/support/hostile-receivers.ts";
import { startAnsweringReceivers } from "./lib/answering-receivers.ts";
import { startChild } from "../test/support/child-process.ts";
import { compileForBench } from "./lib/compile.ts";
import { percentile, spreadOf } from "./lib/stats.ts";

const GOOD_PORTS = 50;
const MANY = 2_000;
const MOST_OUTSTANDING = 2_000;
const CROWD_WARM_UP_MS = 3_000;
const CROWD_MS = 12_000;
const FEW = 42;
const STEADY_EVENTS = 400;
const STEADY_WARM_UP_EVENTS = 200;
const STEADY_PAUSE_MS = 50;

/** Good and bad ones do not share a process, as in the world. */
interface Receivers extends Omit<HostileReceivers, "good"> {
  readonly good: readonly string[];
}

interface SteadyResult {
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly grownMegabytes: number;
}

const [, , role, ...args] = process.argv;
if (role === "good") process.send?.(await startGood());
else if (role === "bad") await serveHostileReceivers();
else if (role === "crowd" || role === "steady") {
  const receivers = JSON.parse(args[0]!) as Receivers;
  const withBad = args[1] === "bad";
  process.send?.(
    role === "crowd"
      ? await measureCrowd(receivers, withBad)
      : await measureSteady(receivers, withBad),
  );
  process.exit(0);
} else await runBench(Number(role ?? 5));

async function runBench(rounds: number): Promise<void> {
  const self = join(compileForBench(), "bench/bad-receivers.js");
  await using good = await startChild<string[]>(self, ["good"]);
  await using bad = await startChild<HostileReceivers>(self, ["bad"]);
  const receivers = JSON.stringify({ ...bad.ready, good: good.ready } satisfies Receivers);
  const measure = async <Result>(kind: string, withBad: boolean): Promise<Result> =>
    (await startChild<Result>(self, [kind, receivers, withBad ? "bad" : "good"])).ready;
  const kept: number[] = [];
  const steady: { without: SteadyResult; beside: SteadyResult }[] = [];
  for (let round = 1; round <= rounds; round += 1) {
    const all = await measure<number>("crowd", false);
    const half = await measure<number>("crowd", true);
    kept.push(half / all);
    const pair = {
      without: await measure<SteadyResult>("steady", false),
      beside: await measure<SteadyResult>("steady", true),
    };
    steady.push(pair);
    console.log(
      `round ${round}: 1,000 of 2,000 hang: the others get ${half.toFixed(0)}/s, ${all.toFixed(0)}/s when none does (${(half / all).toFixed(2)}); ` +
        `42 of 50: p50 ${pair.beside.p50Ms.toFixed(1)} ms, p99 ${pair.beside.p99Ms.toFixed(1)} ms, alone ${pair.without.p50Ms.toFixed(1)} and ${pair.without.p99Ms.toFixed(1)} ms; memory +${pair.beside.grownMegabytes.toFixed(0)} MB; load ${loadavg()[0]?.toFixed(1)}`,
    );
  }
  bad.process.send("report");
  const [trespasses] = (await once(bad.process, "message")) as [Trespasses];
  const summary = {
    throughputKept: spreadOf(kept),
    p99Ratio: spreadOf(steady.map(({ without, beside }) => beside.p99Ms / without.p99Ms)),
    p99Ms: spreadOf(steady.map(({ beside }) => beside.p99Ms)),
    p99AloneMs: spreadOf(steady.map(({ without }) => without.p99Ms)),
    grownMegabytes: spreadOf(steady.map(({ beside }) => beside.grownMegabytes)),
    ...trespasses,
  };
  console.log(summary);
  const folder = fileURLToPath(new URL("results/", import.meta.url));
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "bad-receivers.json"), `${JSON.stringify(summary, null, 2)}\n`);
}

/** Deliveries/s of the first half of 2,000 destinations; the other half answers as well, or hangs. */
async function measureCrowd({ good, hanging }: Receivers, withBad: boolean): Promise<number> {
  let delivered = 0;
  const isOfFirstHalf = (id: string): boolean => Number(id.slice(4)) < MANY / 2;
  await using rig = await makeDeliveryRig({
    timeoutMs: 15_000,
    bodyBytes: 1_000,
    onEnded: ({ status, destinationId }) => {
      if (status === "delivered" && isOfFirstHalf(destinationId)) delivered += 1;
    },
  });
  for (let index = 0; index < MANY; index += 1)
    rig.configure(`dst_${index}`, {
      endpointId: `ep_${index}`,
      receiverUrl: withBad && index >= MANY / 2 ? hanging : good[index % good.length]!,
    });
  let fed = 0;
  const feedUntil = async (endMs: number): Promise<void> => {
    while (performance.now() < endMs) {
      if (fed - delivered > MOST_OUTSTANDING / 2) await sleep(1);
      else {
        const pairs = Array.from({ length: 50 }, () => fed++ % (MANY / 2));
        await rig.ingestEach(pairs.flatMap((index) => [`ep_${index}`, `ep_${index + MANY / 2}`]));
      }
    }
  };
  await feedUntil(performance.now() + CROWD_WARM_UP_MS);
  const [startedMs, before] = [performance.now(), delivered];
  await feedUntil(startedMs + CROWD_MS);
  return (delivered - before) / ((performance.now() - startedMs) / 1_000);
}

/** From the durable event to the durable end of its delivery, for the 42 that behave. */
async function measureSteady(
  { good, bad, ca }: Receivers,
  withBad: boolean,
): Promise<SteadyResult> {
  const ingestedAtMs = new Map<string, number>();
  const latenciesMs: number[] = [];
  await using rig = await makeDeliveryRig({
    timeoutMs: 15_000,
    bodyBytes: 1_000,
    ca,
    onEnded: ({ eventId, destinationId }) => {
      if (destinationId.startsWith("dst_good"))
        latenciesMs.push(performance.now() - (ingestedAtMs.get(eventId) ?? Number.NaN));
    },
  });
  for (let index = 0; index < FEW; index += 1)
    rig.configure(`dst_good${index}`, { receiverUrl: good[index % good.length]! });
  for (const [index, receiverUrl] of (withBad ? bad : []).entries())
    rig.configure(`dst_bad${index}`, { receiverUrl });
  const feed = async (events: number): Promise<void> => {
    for (let index = 0; index < events; index += 1) {
      for (const { id } of await rig.ingest("ep_1", 1)) ingestedAtMs.set(id, performance.now());
      await sleep(STEADY_PAUSE_MS);
    }
  };
  await feed(STEADY_WARM_UP_EVENTS);
  latenciesMs.length = 0;
  const beforeBytes = process.memoryUsage().rss;
  await feed(STEADY_EVENTS);
  const grownMegabytes = (process.memoryUsage().rss - beforeBytes) / 1_048_576;
  latenciesMs.sort((one, other) => one - other);
  return {
    p50Ms: percentile(latenciesMs, 0.5),
    p99Ms: percentile(latenciesMs, 0.99),
    grownMegabytes,
  };
}

async function startGood(): Promise<string[]> {
  const ports = await startAnsweringReceivers(GOOD_PORTS);
  return ports.map((port) => `http://127.0.0.1:${port}/hook`);
}
