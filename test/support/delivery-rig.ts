import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { makeSystemClock } from "../../src/app/system-clock.ts";
import { openLmdbLog } from "../../src/adapters/lmdb/open-lmdb-log.ts";
import { makeHttpSender } from "../../src/adapters/undici/http-sender.ts";
import type { Attempt } from "../../src/domain/attempt.ts";
import type { DestinationConfig } from "../../src/domain/destination.ts";
import type { EventRecord } from "../../src/domain/event.ts";
import { makeIdGenerator } from "../../src/domain/ids.ts";
import { parseCidrs } from "../../src/domain/ip.ts";
import type { DurableAppender, NewRecord } from "../../src/domain/log.ts";
import { makeDurableAppender } from "../../src/pipeline/attempts/durable-appender.ts";
import { makeDelayForwarder } from "../../src/pipeline/delay/make-delay-forwarder.ts";
import { makeDelivery } from "../../src/pipeline/deliver/make-delivery.ts";
import type { DeliveryOptions } from "../../src/pipeline/deliver/delivery-options.ts";
import type { OutboundRequest } from "../../src/domain/outbound-request.ts";
import { firstTryOfReplay } from "../../src/domain/delivery-task.ts";
import { planFanout } from "../../src/pipeline/fanout/plan-fanout.ts";
import { encodeEvent } from "../../src/pipeline/log/event-codec.ts";
import { decodeOutcome } from "../../src/pipeline/log/outcome-codec.ts";
import { encodeTask } from "../../src/pipeline/log/task-codec.ts";
import { signDelivery } from "../../src/signing/standard-webhooks.ts";
import { NO_CHANGES } from "./no-changes.ts";
import { makeSilentLogger } from "./silent-logger.ts";

export interface RigOptions {
  readonly timeoutMs: number;
  readonly bodyBytes?: number;
  readonly partitions?: number;
  /** PEM of the authority that signs the receivers' certificates. */
  readonly ca?: string;
  readonly delivery?: Partial<DeliveryOptions>;
  /** Called with every end of a try that made a request, once it is durable. */
  readonly onEnded?: (attempt: Attempt) => void;
  /** Called after every request, whether it was answered or not. */
  readonly onReply?: (request: OutboundRequest) => void;
}

/** Delivery as the relay composes it, with the embedded log and the real sender; the configuration is a map. */
export interface DeliveryRig extends AsyncDisposable {
  readonly configs: Map<string, DestinationConfig>;
  readonly warnings: string[];
  /** Number of durable ends of tries, by status. */
  readonly ended: Map<string, number>;
  readonly held: () => number;
  /** Returns the number of tries put off so far. */
  readonly deferred: () => number;
  /** Adds or changes a destination, and notifies the lanes. */
  configure(id: string, changes: Partial<DestinationConfig>): void;
  remove(id: string): void;
  /** Appends accepted events; they are durable when it resolves. */
  ingest(endpointId: string, count: number): Promise<readonly EventRecord[]>;
  /** Appends an event for each endpoint in one call. */
  ingestEach(endpointIds: readonly string[]): Promise<void>;
  /** Appends replays of one event, each a run of its own. */
  replay(endpointId: string, destinationId: string, count: number): Promise<void>;
}

export async function makeDeliveryRig(options: RigOptions): Promise<DeliveryRig> {
  const dir = await mkdtemp(join(tmpdir(), "relay-rig-"));
  const warnings: string[] = [];
  const logger = makeSilentLogger((level, message, fields) => {
    if (level === "error" || level === "warn")
      warnings.push(`${message} ${JSON.stringify(fields)}`);
  });
  const clock = makeSystemClock();
  const partitions = options.partitions ?? 8;
  const log = await openLmdbLog({ dir, partitions, retentionMs: 0, clock, logger });
  const sender = makeHttpSender({
    allowPrivate: parseCidrs(["127.0.0.0/8"]),
    timeoutMs: options.timeoutMs,
    ...(options.ca === undefined ? {} : { ca: options.ca }),
  });
  const configs = new Map<string, DestinationConfig>();
  const byEndpoint = new Map<string, Set<string>>();
  const listeners = new Set<(destinationId: string) => void>();
  const ended = new Map<string, number>();
  let held = 0;
  let deferred = 0;
  const inner = makeDurableAppender({ log, clock, logger });
  const { onEnded, onReply } = options;
  const appender: DurableAppender =
    onEnded === undefined
      ? inner
      : {
          async append(records, stillNeeded, urgency) {
            const positions = await inner.append(records, stillNeeded, urgency);
            if (positions !== null) for (const record of records) tellOfEnd(record, onEnded);
            return positions;
          },
        };
  const delivery = makeDelivery(
    {
      log,
      appender,
      clock,
      logger,
      random: Math.random,
      metrics: {
        attempted: (status) => {
          ended.set(status, (ended.get(status) ?? 0) + 1);
        },
        deferred: () => {
          deferred += 1;
        },
        droppedDuplicate: () => undefined,
        unreadable: () => undefined,
        openCircuits: () => undefined,
        inFlight: () => undefined,
        queued: () => undefined,
        held: (change) => {
          held += change;
        },
      },
      destinationsOf: (id) => ({
        kind: "found",
        value: [...(byEndpoint.get(id) ?? [])].map((one) => configs.get(one)!),
      }),
      destination: (id) => {
        const value = configs.get(id);
        return value === undefined ? { kind: "missing" } : { kind: "found", value };
      },
      onDestinationChanged: (listener) => {
        listeners.add(listener);
        return () => listeners.delete(listener);
      },
      disableDestination: () => Promise.resolve(),
      planFanout,
      send:
        onReply === undefined
          ? sender.send
          : async (request, signal, onSent) => {
              const reply = await sender.send(request, signal, onSent);
              onReply(request);
              return reply;
            },
      signDelivery,
    },
    {
      ownerId: String(performance.now()),
      version: "test",
      deliveryTimeoutMs: options.timeoutMs,
      stopGraceMs: 100,
      ...options.delivery,
    },
  );
  const forwarder = makeDelayForwarder({
    log,
    appender,
    clock,
    logger,
    metrics: { forwarded: () => undefined, lateness: () => undefined },
    destinations: NO_CHANGES,
  });
  await delivery.start();
  await forwarder.start();
  const newId = makeIdGenerator();
  const body = Buffer.alloc(options.bodyBytes ?? 200, "x");
  const makeEvent = (endpointId: string): EventRecord => ({
    ...EVENT,
    id: newId("event", clock.now()),
    endpointId,
    receivedAtMs: clock.now(),
    payloadSizeBytes: body.length,
    body,
  });

  async function appendAll(records: readonly NewRecord[]): Promise<void> {
    for (let at = 0; at < records.length; at += 500) await log.append(records.slice(at, at + 500));
  }

  function tell(id: string): void {
    for (const listener of listeners) listener(id);
  }

  return {
    configs,
    warnings,
    ended,
    held: () => held,
    deferred: () => deferred,
    configure(id, changes) {
      const config = { ...DESTINATION, id, ...configs.get(id), ...changes };
      configs.set(id, config);
      byEndpoint.set(
        config.endpointId,
        (byEndpoint.get(config.endpointId) ?? new Set<string>()).add(id),
      );
      tell(id);
    },
    remove(id) {
      byEndpoint.get(configs.get(id)?.endpointId ?? "")?.delete(id);
      configs.delete(id);
      tell(id);
    },
    async ingest(endpointId, count) {
      const events = Array.from({ length: count }, () => makeEvent(endpointId));
      await appendAll(
        events.map((event) => ({ topic: "events", key: endpointId, value: encodeEvent(event) })),
      );
      return events;
    },
    async ingestEach(endpointIds) {
      await appendAll(
        endpointIds.map((endpointId) => ({
          topic: "events",
          key: endpointId,
          value: encodeEvent(makeEvent(endpointId)),
        })),
      );
    },
    async replay(endpointId, destinationId, count) {
      const nowMs = clock.now();
      for (let left = count; left > 0; left -= 500)
        await appendAll(
          Array.from({ length: Math.min(500, left) }, () => {
            const event = makeEvent(endpointId);
            return {
              topic: "tasks",
              key: endpointId,
              value: encodeTask(firstTryOfReplay(event, destinationId, "run", nowMs)),
            };
          }),
        );
    },
    async [Symbol.asyncDispose]() {
      await delivery[Symbol.asyncDispose]();
      await forwarder[Symbol.asyncDispose]();
      await sender[Symbol.asyncDispose]();
      await log[Symbol.asyncDispose]();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

function tellOfEnd({ topic, value }: NewRecord, onEnded: (attempt: Attempt) => void): void {
  const outcome = topic === "attempts" ? decodeOutcome(value) : null;
  if (outcome?.kind === "attempt") onEnded(outcome.attempt);
}

const EVENT: EventRecord = {
  id: "",
  orgId: "org_1",
  endpointId: "",
  provider: "custom",
  receivedAtMs: 0,
  method: "POST",
  path: "/in/token",
  query: "",
  headers: [["Content-Type", "application/json"]],
  contentType: "application/json",
  sourceIp: "127.0.0.1",
  signatureValid: true,
  verificationError: null,
  reason: "ok",
  bodyStored: true,
  payloadSizeBytes: 0,
  body: Buffer.alloc(0),
};

const DESTINATION: DestinationConfig = {
  id: "",
  endpointId: "ep_1",
  orgId: "org_1",
  receiverUrl: "",
  forwardOriginalSignature: false,
  status: "active",
  retryMaxAttempts: 5,
  retryBackoff: "exponential",
  rateLimitMax: null,
  rateLimitWindow: null,
  secrets: [{ secret: `whsec_${Buffer.alloc(32, 7).toString("base64")}`, signsUntilMs: null }],
  signatureHeaders: [],
  updatedAtMs: 0,
};
