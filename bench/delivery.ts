/**
 * Deliveries: log → fan-out → lanes → undici → receivers in a process of their own, on the embedded log.
 * `npx tsx bench/delivery.ts [seconds]` prints deliveries/s for 1, 10 and 1,000 destinations, and the latency
 * from the durable event to the answered delivery at a steady 200 events/s.
 */
import { mkdirSync, writeFileSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { cpus, loadavg, tmpdir } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { App, us_socket_local_port } from "uWebSockets.js";
import { openLmdbLog } from "../src/adapters/lmdb/open-lmdb-log.ts";
import { makeHttpSender } from "../src/adapters/undici/http-sender.ts";
import type { Clock } from "../src/domain/clock.ts";
import type { DestinationConfig } from "../src/domain/destination.ts";
import { makeIdGenerator } from "../src/domain/ids.ts";
import { parseCidrs } from "../src/domain/ip.ts";
import { makeDurableAppender } from "../src/pipeline/attempts/durable-appender.ts";
import { makeDelayForwarder } from "../src/pipeline/delay/make-delay-forwarder.ts";
import { makeDelivery } from "../src/pipeline/deliver/make-delivery.ts";
import { planFanout } from "../src/pipeline/fanout/plan-fanout.ts";
import { encodeEvent } from "../src/pipeline/log/event-codec.ts";
import { signDelivery } from "../src/signing/standard-webhooks.ts";
import { makeSilentLogger } from "../test/support/silent-logger.ts";
import { startChild } from "./lib/child.ts";
import { compileForBench } from "./lib/compile.ts";
import { percentile } from "./lib/stats.ts";

const PARTITIONS = 8;
const MAX_OUTSTANDING = 2_000;
const BODY = Buffer.from(JSON.stringify({ type: "bench", filler: "x".repeat(990) }));

/** Receivers are on as many ports as there are destinations, up to so many. */
const RECEIVER_PORTS = 50;
const WARM_UP_MS = 2_000;
const STEADY_EVENTS = 400;

interface Result {
  readonly destinations: number;
  readonly perSecond: number;
  /** Of the delivering process, all threads. */
  readonly cpuMicrosEach: number;
  readonly deferred: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
}

const [, , role, ...args] = process.argv;
if (role === "receiver") startReceivers();
else if (role === "measure") {
  const [count = 1, seconds = 5, ...ports] = args.map(Number);
  process.send?.(await measure(ports, count, seconds));
  process.exit(0);
} else await runBench(Number(role ?? 5));

/** Answers 200 to every POST once its body is in. */
function startReceivers(): void {
  const ports: number[] = [];
  for (let index = 0; index < RECEIVER_PORTS; index += 1)
    App()
      .post("/*", (res) => {
        res.onAborted(() => undefined);
        res.onData((_, isLast) => {
          if (isLast) res.end("ok");
        });
      })
      .listen("127.0.0.1", 0, (socket) => {
        ports.push(us_socket_local_port(socket));
        if (ports.length === RECEIVER_PORTS) process.send?.(ports);
      });
}

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
  const dir = await mkdtemp(join(tmpdir(), "bench-delivery-"));
  const logger = makeSilentLogger((level, message, fields) => {
    if (level === "error" || level === "warn") console.error(message, fields);
  });
  const clock = systemClock();
  const log = await openLmdbLog({ dir, partitions: PARTITIONS, retentionMs: 0, clock, logger });
  const sender = makeHttpSender({
    allowPrivate: parseCidrs(["127.0.0.0/8"]),
    timeoutMs: 15_000,
  });
  const configs = makeConfigs(count, ports);
  // As many endpoints as destinations, one each; a single one spreads over nothing.
  const byEndpoint = new Map(configs.map((config) => [config.endpointId, [config]]));
  const byId = new Map(configs.map((config) => [config.id, config]));
  let delivered = 0;
  let deferred = 0;
  const latencies: number[] = [];
  const sentAt = new Map<string, number>();
  const appender = makeDurableAppender({ log, clock, logger });
  const delivery = makeDelivery(
    {
      log,
      appender,
      clock,
      logger,
      random: Math.random,
      metrics: {
        attempted: (status) => {
          if (status === "delivered") delivered += 1;
        },
        deferred: () => {
          deferred += 1;
        },
        droppedDuplicate: () => undefined,
        openCircuits: () => undefined,
        inFlight: () => undefined,
        queued: () => undefined,
        held: () => undefined,
      },
      destinationsOf: (id) => ({ kind: "found", value: byEndpoint.get(id) ?? [] }),
      destination: (id) => {
        const value = byId.get(id);
        return value === undefined ? { kind: "missing" } : { kind: "found", value };
      },
      onDestinationChanged: () => () => undefined,
      disableDestination: () => Promise.resolve(),
      planFanout,
      send: async (request, signal) => {
        const reply = await sender.send(request, signal);
        const id = request.headers.find(([name]) => name === "webhook-id")?.[1] ?? "";
        const began = sentAt.get(id);
        if (began !== undefined) latencies.push(performance.now() - began);
        return reply;
      },
      signDelivery,
    },
    { ownerId: String(performance.now()), version: "bench" },
  );
  const forwarder = makeDelayForwarder({
    log,
    appender,
    clock,
    logger,
    metrics: { forwarded: () => undefined, lateness: () => undefined },
  });
  await delivery.start();
  await forwarder.start();
  const newId = makeIdGenerator();
  const encode = (
    index: number,
  ): { id: string; record: Parameters<typeof log.append>[0][number] } => {
    const { endpointId } = configs[index % configs.length]!;
    const id = newId("event", Date.now());
    return {
      id,
      record: { topic: "events", key: endpointId, value: encodeEvent(makeEvent(id, endpointId)) },
    };
  };

  await sleep(200);
  let appended = 0;
  const feedUntil = async (endAtMs: number): Promise<void> => {
    while (performance.now() < endAtMs) {
      if (appended - delivered > MAX_OUTSTANDING) await sleep(1);
      else await log.append(Array.from({ length: 100 }, () => encode(appended++).record));
    }
  };
  await feedUntil(performance.now() + WARM_UP_MS);
  const cpuBefore = process.cpuUsage();
  const deliveredBefore = delivered;
  const began = performance.now();
  await feedUntil(began + seconds * 1_000);
  const counted = delivered - deliveredBefore;
  const elapsedSeconds = (performance.now() - began) / 1_000;
  const { user, system } = process.cpuUsage(cpuBefore);
  const isDrained = (): boolean => delivered >= appended;
  while (!isDrained()) await sleep(5);

  latencies.length = 0;
  for (let index = 0; index < STEADY_EVENTS; index += 1) {
    const { id, record } = encode(index);
    await log.append([record]);
    sentAt.set(id, performance.now());
    await sleep(5);
  }
  await sleep(200);
  latencies.sort((one, other) => one - other);
  await delivery[Symbol.asyncDispose]();
  await forwarder[Symbol.asyncDispose]();
  await sender[Symbol.asyncDispose]();
  await log[Symbol.asyncDispose]();
  await rm(dir, { recursive: true });
  return {
    destinations: count,
    perSecond: Math.round(counted / elapsedSeconds),
    cpuMicrosEach: Math.round((user + system) / counted),
    deferred,
    p50Ms: percentile(latencies, 0.5),
    p99Ms: percentile(latencies, 0.99),
  };
}

function makeConfigs(count: number, ports: readonly number[]): DestinationConfig[] {
  return Array.from({ length: count }, (_, index) => ({
    id: `dst_${index}`,
    endpointId: `ep_${index}`,
    orgId: "org_1",
    receiverUrl: `http://127.0.0.1:${ports[index % ports.length]}/${index}`,
    forwardOriginalSignature: false,
    status: "active",
    retryMaxAttempts: 5,
    retryBackoff: "exponential",
    rateLimitMax: null,
    rateLimitWindow: null,
    secrets: [{ secret: `whsec_${Buffer.alloc(32, 7).toString("base64")}`, signsUntilMs: null }],
    signatureHeaders: [],
  }));
}

function makeEvent(id: string, endpointId: string): Parameters<typeof encodeEvent>[0] {
  return {
    id,
    orgId: "org_1",
    endpointId,
    provider: "custom",
    receivedAtMs: Date.now(),
    method: "POST",
    path: "/in/bench",
    query: "",
    headers: [
      ["Content-Type", "application/json"],
      ["User-Agent", "bench"],
    ],
    contentType: "application/json",
    sourceIp: "127.0.0.1",
    signatureValid: true,
    verificationError: null,
    reason: "ok",
    bodyStored: true,
    payloadSizeBytes: BODY.length,
    body: BODY,
  };
}

function systemClock(): Clock {
  return {
    now: () => Date.now(),
    monotonic: () => performance.now(),
    schedule: (delayMs, callback) => {
      const timer = setTimeout(callback, delayMs);
      return () => clearTimeout(timer);
    },
  };
}
