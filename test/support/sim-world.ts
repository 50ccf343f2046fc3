import { setMaxListeners } from "node:events";
import type { Attempt } from "../../src/domain/attempt.ts";
import type { Clock, Random } from "../../src/domain/clock.ts";
import type { DestinationConfig, Lookup } from "../../src/domain/destination.ts";
import type { EventRecord } from "../../src/domain/event.ts";
import type { DurableAppender, NewRecord, Topic, Urgency } from "../../src/domain/log.ts";
import type { OutcomeRecord } from "../../src/domain/outcome.ts";
import { makeDurableAppender } from "../../src/pipeline/attempts/durable-appender.ts";
import { makeDelayForwarder } from "../../src/pipeline/delay/make-delay-forwarder.ts";
import { makeDelivery } from "../../src/pipeline/deliver/make-delivery.ts";
import type { Delivery } from "../../src/pipeline/deliver/make-delivery.ts";
import type { DeferralReason, DeliveryPorts } from "../../src/pipeline/deliver/ports.ts";
import type { DeliveryOptions } from "../../src/pipeline/deliver/delivery-options.ts";
import type { Reply, OutboundRequest } from "../../src/domain/outbound-request.ts";
import { firstTryOfReplay } from "../../src/domain/delivery-task.ts";
import { planFanout } from "../../src/pipeline/fanout/plan-fanout.ts";
import { encodeEvent } from "../../src/pipeline/log/event-codec.ts";
import { decodeOutcome } from "../../src/pipeline/log/outcome-codec.ts";
import { encodeTask } from "../../src/pipeline/log/task-codec.ts";
import { encodeTime } from "../../src/domain/ids.ts";
import { makeSilentLogger } from "./silent-logger.ts";
import { MemoryLogStore } from "./memory-log.ts";
import type { MemoryProcess } from "./memory-log.ts";
import { SimClock, seededRandom } from "./sim-clock.ts";

/** A request as the receiver saw it. */
export interface SeenRequest {
  readonly destinationId: string;
  readonly eventId: string;
  readonly attempt: number;
  readonly trigger: string;
  readonly atMs: number;
  readonly process: string;
  readonly request: OutboundRequest;
  /** When the sender had the answer; null: not yet, or it died before. */
  answeredAtMs: number | null;
}

/** What a receiver does with its n-th request (from 0). `afterMs` is how long the answer takes. */
export type Behaviour = (
  seen: SeenRequest,
  nth: number,
) => { readonly afterMs: number; readonly reply: Reply };

export interface SimProcess extends MemoryProcess {
  readonly delivery: Delivery;
  readonly forwarder: AsyncDisposable;
}

export function answer(status: number, body = "", retryAfter: string | null = null): Reply {
  return { kind: "response", status, body, retryAfter, date: null, latencyMs: 5 };
}

export const OK: Behaviour = () => ({ afterMs: 5, reply: answer(200) });
export const HANG: Behaviour = () => ({
  afterMs: 15_000,
  reply: { kind: "timeout", reason: "no answer within 15 s", latencyMs: 15_000 },
});
export const FAIL: Behaviour = () => ({ afterMs: 5, reply: answer(500, "broken") });

/** A circuit that opens after five failures in a second. */
export const QUICK_BREAKER = {
  failures: 5,
  minStreakMs: 1_000,
  minNewRunsMs: 1_000,
  openMs: 10_000,
  maxOpenMs: 60_000,
};

/** How long a configuration lookup takes when it is asynchronous. */
const CONFIG_MS = 2;

export interface WorldOptions {
  readonly seed?: number;
  readonly partitions?: number;
  readonly delivery?: Partial<DeliveryOptions>;
}

/** Processes, receivers and configuration around one in-memory log, in simulated time. */
export class SimWorld {
  readonly clock: SimClock;
  readonly random: Random;
  readonly store: MemoryLogStore;
  readonly seen: SeenRequest[] = [];
  readonly destinations = new Map<string, DestinationConfig>();
  readonly behaviours = new Map<string, Behaviour>();
  readonly disabled: string[] = [];
  readonly deferrals: DeferralReason[] = [];
  readonly errors: { readonly message: string; readonly fields: object }[] = [];
  readonly warnings: string[] = [];
  droppedDuplicates = 0;
  readonly unreadable: Topic[] = [];
  openCircuits = 0;
  held = 0;
  pendingBytes = 0;
  /** Returns how long a request takes to reach its receiver. */
  networkMs: () => number = () => 1;
  /** Returns how long a request waits for a connection. */
  connectMs: () => number = () => 0;
  configKind: "sync" | "async" | "unavailable" = "sync";
  /** How a request ends that its process cuts off: a sender may do either. */
  cutOffEnds: "rejected" | "as an error" = "as an error";
  signDelivery: DeliveryPorts["signDelivery"] = ({ secrets }) =>
    secrets.map((secret) => `v1,${secret}`).join(" ");
  /** Called with everything that delivery and the delay tiers append. */
  onAppend: ((records: readonly NewRecord[], urgency: Urgency) => void) | null = null;
  /** False: changes are not announced, so the sweep must find them. */
  tellsChanges = true;
  readonly #listeners = new Set<(destinationId: string, endpointId: string) => void>();
  readonly #gapListeners = new Set<() => void>();
  readonly #options: Partial<DeliveryOptions>;
  readonly #counts = new Map<string, number>();
  readonly #decoded = new Map<number, OutcomeRecord[]>();
  readonly #signals = new WeakSet<AbortSignal>();
  #events = 0;

  constructor(options: WorldOptions = {}) {
    this.clock = new SimClock();
    this.random = seededRandom(options.seed ?? 1);
    this.store = new MemoryLogStore(options.partitions ?? 1, this.clock, this.random);
    this.#options = options.delivery ?? {};
  }

  /** Adds or replaces a destination, and notifies listeners. */
  configure(id: string, changes: Partial<DestinationConfig> = {}): DestinationConfig {
    const config: DestinationConfig = {
      id,
      endpointId: "ep_1",
      orgId: "org_1",
      receiverUrl: `https://${id.replaceAll("_", "-")}.example.com/hook`,
      forwardOriginalSignature: false,
      status: "active",
      retryMaxAttempts: 5,
      retryBackoff: "exponential",
      rateLimitMax: null,
      rateLimitWindow: null,
      secrets: [{ secret: "whsec_current", signsUntilMs: null }],
      signatureHeaders: [],
      ...this.destinations.get(id),
      updatedAtMs: this.clock.now(),
      ...changes,
    };
    this.destinations.set(id, config);
    if (this.tellsChanges) this.notify(id);
    return config;
  }

  remove(id: string): void {
    const endpointId = this.destinations.get(id)?.endpointId;
    this.destinations.delete(id);
    if (this.tellsChanges) this.notify(id, endpointId);
  }

  notify(id: string, endpointId = this.destinations.get(id)?.endpointId ?? ""): void {
    for (const listener of this.#listeners) listener(id, endpointId);
  }

  /** Tells all listeners that changes may have been missed, but not which. */
  tellGap(): void {
    for (const listener of this.#gapListeners) listener();
  }

  behave(id: string, behaviour: Behaviour): void {
    this.behaviours.set(id, behaviour);
  }

  makeEvent(changes: Partial<EventRecord> = {}): EventRecord {
    const receivedAtMs = this.clock.now();
    const body = Buffer.from(`{"n":${this.#events}}`);
    this.#events += 1;
    return {
      id: `evt_${encodeTime(receivedAtMs)}${String(this.#events).padStart(16, "0")}`,
      orgId: "org_1",
      endpointId: "ep_1",
      provider: "custom",
      receivedAtMs,
      method: "POST",
      path: "/in/token",
      query: "",
      headers: [["Content-Type", "application/json"]],
      contentType: "application/json",
      sourceIp: "203.0.113.7",
      signatureValid: true,
      verificationError: null,
      reason: "ok",
      bodyStored: true,
      payloadSizeBytes: body.length,
      body,
      ...changes,
    };
  }

  /** Appends an accepted event as ingest would. */
  ingest(changes: Partial<EventRecord> = {}): EventRecord {
    const event = this.makeEvent(changes);
    this.store.write([{ topic: "events", key: event.endpointId, value: encodeEvent(event) }]);
    return event;
  }

  /** Appends a replay to one destination as management would. */
  replay(event: EventRecord, destinationId: string, run: string): void {
    this.store.write([
      {
        topic: "tasks",
        key: event.endpointId,
        value: encodeTask(firstTryOfReplay(event, destinationId, run, this.clock.now())),
      },
    ]);
  }

  /** Starts a process whose wall clock is off by `skewMs`. */
  async start(name = "a", skewMs = 0): Promise<SimProcess> {
    const state = { name, alive: true };
    const clock = this.#clockOf(state, skewMs);
    const log = this.store.open(state);
    const logger = makeSilentLogger((level, message, fields) => {
      if (level === "error") this.errors.push({ message, fields });
      if (level === "warn") this.warnings.push(message);
    });
    const durable = makeDurableAppender({ log, clock, logger });
    const appender: DurableAppender = {
      append: (records, stillNeeded, urgency = "now") => {
        this.onAppend?.(records, urgency);
        return durable.append(records, stillNeeded, urgency);
      },
    };
    const destinationsOf = (endpointId: string) =>
      this.#configured(state, (): Lookup<readonly DestinationConfig[]> => ({
        kind: "found",
        value: [...this.destinations.values()].filter((one) => one.endpointId === endpointId),
      }));
    const destination = (id: string) =>
      this.#configured(state, (): Lookup<DestinationConfig> => {
        const value = this.destinations.get(id);
        return value === undefined ? { kind: "missing" } : { kind: "found", value };
      });
    const onChange = (listener: (destinationId: string, endpointId: string) => void) => {
      const heard: typeof listener = (...change) => (state.alive ? listener(...change) : undefined);
      this.#listeners.add(heard);
      return () => void this.#listeners.delete(heard);
    };
    const delivery = makeDelivery(
      {
        log,
        appender,
        clock,
        logger,
        random: this.random,
        metrics: {
          attempted: () => undefined,
          deferred: (reason) => this.deferrals.push(reason),
          droppedDuplicate: () => {
            this.droppedDuplicates += 1;
          },
          unreadable: (topic) => this.unreadable.push(topic),
          openCircuits: (change) => {
            this.openCircuits += change;
          },
          inFlight: () => undefined,
          queued: (_deliveries, bytes) => {
            this.pendingBytes = bytes;
          },
          held: (change) => {
            this.held += change;
          },
        },
        destinationsOf,
        destination,
        onDestinationChanged: (listener) => onChange(listener),
        disableDestination: (id) => {
          this.disabled.push(id);
          if (this.destinations.has(id)) this.configure(id, { status: "disabled" });
          return Promise.resolve();
        },
        planFanout,
        send: (request, signal, onSent) => this.#send(state, request, signal, onSent),
        signDelivery: (input) => this.signDelivery(input),
      },
      { ownerId: `${name}-${this.clock.now()}`, version: "0.0.0", ...this.#options },
    );
    const forwarder = makeDelayForwarder({
      log,
      appender,
      clock,
      logger,
      metrics: { forwarded: () => undefined, lateness: () => undefined },
      destinations: {
        destinationsOf,
        destination,
        onChange: (listener) =>
          onChange((destinationId, endpointId) => listener({ endpointId, destinationId })),
        onGap: (listener) => {
          const heard = (): void => (state.alive ? listener() : undefined);
          this.#gapListeners.add(heard);
          return () => void this.#gapListeners.delete(heard);
        },
      },
    });
    await Promise.all([this.#run(delivery.start()), this.#run(forwarder.start())]);
    return Object.assign(state, { delivery, forwarder });
  }

  /** Stops a process gracefully. */
  async stop(process: SimProcess): Promise<void> {
    await this.#run(Promise.resolve(process.delivery[Symbol.asyncDispose]()));
    await this.#run(Promise.resolve(process.forwarder[Symbol.asyncDispose]()));
  }

  /** Lets time pass until the promise is settled. */
  async #run<T>(work: Promise<T>): Promise<T> {
    let settled = false;
    const settle = (): void => {
      settled = true;
    };
    void work.then(settle, settle);
    await this.clock.until(() => settled, 120_000, 1);
    return work;
  }

  /** Returns everything in the `attempts` log; each record is decoded once. */
  outcomes(): OutcomeRecord[] {
    return Array.from({ length: this.store.partitions }, (_, partition) =>
      this.outcomesOf(partition),
    ).flat();
  }

  /** Returns the same for one partition, in the order of its records. */
  outcomesOf(partition: number): readonly OutcomeRecord[] {
    const records = this.store.records("attempts", partition);
    const known = this.#decoded.get(partition) ?? [];
    this.#decoded.set(partition, known);
    for (let at = known.length; at < records.length; at += 1)
      known.push(decodeOutcome(records[at]!.value));
    return known;
  }

  /** Returns attempt rows as the store keeps them: one per id, the last one written. */
  attempts(): Attempt[] {
    const rows = new Map<string, Attempt>();
    for (const outcome of this.outcomes())
      if (outcome.kind === "attempt") rows.set(outcome.attempt.id, outcome.attempt);
    return [...rows.values()].sort((one, other) => one.attemptedAtMs - other.attemptedAtMs);
  }

  /** Returns the runs that have ended, by `event|destination|run`: a second copy that ends later does not reopen them. */
  ended(): Map<string, Attempt> {
    const ended = new Map<string, Attempt>();
    for (const outcome of this.outcomes()) {
      if (outcome.kind !== "attempt") continue;
      const { attempt } = outcome;
      if (attempt.status === "delivered" || attempt.status === "dead")
        ended.set(`${attempt.eventId}|${attempt.destinationId}|${attempt.run}`, attempt);
    }
    return ended;
  }

  requestsTo(destinationId: string): SeenRequest[] {
    return this.seen.filter((request) => request.destinationId === destinationId);
  }

  #configured<T>(process: MemoryProcess, make: () => Lookup<T>): Lookup<T> | Promise<Lookup<T>> {
    if (this.configKind === "unavailable") return { kind: "unavailable" };
    if (this.configKind === "sync") return make();
    return new Promise((resolve) => {
      this.clock.schedule(CONFIG_MS, () => {
        // The state at the time of reading, also for a process frozen until later.
        const found = make();
        this.store.whenAwake(process, () => resolve(found));
      });
    });
  }

  #clockOf(process: MemoryProcess, skewMs: number): Clock {
    return {
      now: () => this.clock.now() + skewMs,
      monotonic: () => this.clock.monotonic(),
      schedule: (delayMs, callback) => {
        let cancelled = false;
        const cancel = this.clock.schedule(delayMs, () =>
          this.store.whenAwake(process, () => (cancelled ? undefined : callback())),
        );
        return () => {
          cancelled = true;
          cancel();
        };
      },
    };
  }

  #send(
    process: MemoryProcess,
    request: OutboundRequest,
    signal: AbortSignal,
    onSent: () => void,
  ): Promise<Reply> {
    const header = (name: string): string =>
      request.headers.find(([key]) => key === name)?.[1] ?? "";
    return new Promise((resolve, reject) => {
      const arrive = (): void => {
        const seen: SeenRequest = {
          destinationId: header("x-relay-destination-id"),
          eventId: header("webhook-id"),
          attempt: Number(header("x-relay-attempt")),
          trigger: header("x-relay-trigger"),
          atMs: this.clock.now(),
          process: process.name,
          request,
          answeredAtMs: null,
        };
        const nth = this.#counts.get(seen.destinationId) ?? 0;
        this.#counts.set(seen.destinationId, nth + 1);
        this.seen.push(seen);
        const { afterMs, reply } = (this.behaviours.get(seen.destinationId) ?? OK)(seen, nth);
        const cancel = this.clock.schedule(afterMs, () =>
          this.store.whenAwake(process, () => {
            seen.answeredAtMs = this.clock.now();
            resolve({ ...reply, latencyMs: afterMs });
          }),
        );
        if (!this.#signals.has(signal)) setMaxListeners(0, signal);
        this.#signals.add(signal);
        signal.addEventListener("abort", () => {
          cancel();
          if (this.cutOffEnds === "rejected") reject(new Error("aborted"));
          else resolve({ kind: "error", reason: "aborted", latencyMs: afterMs });
        });
      };
      const goOut = (): void => {
        if (!process.alive) return;
        onSent();
        this.clock.schedule(this.networkMs(), arrive);
      };
      const connectMs = this.connectMs();
      if (connectMs === 0) goOut();
      else this.clock.schedule(connectMs, goOut);
    });
  }
}
