import type { DestinationConfig, Lookup } from "../../../domain/destination.ts";
import type { DeliveryTask } from "../../../domain/delivery-task.ts";
import { DESTINATION_DELETED } from "../try/dead-reasons.ts";
import { LaneDeferrals } from "./lane-deferrals.ts";
import { LaneHealth, MAX_WAIT_MS } from "./lane-health.ts";
import type { StartedFor } from "./lane-health.ts";
import { LanePlaces } from "./lane-places.ts";
import { LaneQueue } from "./lane-queue.ts";
import type { QueuedTry } from "./lane-queue.ts";
import type { Reply } from "../../../domain/outbound-request.ts";
import { LaneRateLimit } from "./lane-rate-limit.ts";
import type { LastLimit } from "../limits/limits-codec.ts";
import type { LaneHost } from "./lane-host.ts";
import { scheduleAwake } from "./schedule-awake.ts";
import type { GateLane } from "../bounds/send-gate.ts";

const IDLE_MS = 60_000;
const EVICTION_STEP_MS = 50; // Not 0: while ownership is in doubt nothing can be put off.
const NOTHING = new Uint8Array(0);

/**
 * The queue and the concurrency of one destination. A task is taken in only if it can be expected to start within two seconds;
 * otherwise it is put off to a delay tier, with a slot of its own, and frees the partition.
 */
export class Lane implements GateLane {
  inFlight = 0;
  readonly destinationId: string;
  readonly #host: LaneHost;
  readonly #queue = new LaneQueue();
  readonly #health: LaneHealth;
  readonly #rateLimit: LaneRateLimit;
  readonly #deferrals: LaneDeferrals;
  readonly #places: LanePlaces;
  #isClosed = false;
  #pumping = false;
  #lookingUp = false;
  #cancelRateTimer: (() => void) | null = null;
  #cancelEviction: (() => void) | null = null;
  #lastUsedMs: number;

  constructor(destinationId: string, host: LaneHost) {
    this.destinationId = destinationId;
    this.#host = host;
    this.#health = new LaneHealth(host.options);
    this.#rateLimit = new LaneRateLimit(destinationId, host);
    this.#deferrals = new LaneDeferrals(this, host, this.#health, this.#rateLimit);
    this.#places = new LanePlaces(this, host);
    this.#lastUsedMs = host.clock.monotonic();
  }

  get proven(): boolean {
    return this.#health.proven;
  }

  get queued(): number {
    return this.#queue.waiting;
  }

  get isCircuitOpen(): boolean {
    return this.#health.isCircuitOpen;
  }

  get isEmpty(): boolean {
    return this.queued === 0 && this.inFlight === 0;
  }

  /** Whether it is empty and knows nothing that a new lane would miss: what its circuit has put off would have come back. */
  get isIdle(): boolean {
    const unusedMs = this.#host.clock.monotonic() - this.#lastUsedMs;
    const keptMs = this.isCircuitOpen ? 2 * this.#host.options.breaker.maxOpenMs : IDLE_MS;
    if (!this.isEmpty || unusedMs <= keptMs) return false;
    // Checked last: it goes through all known starts.
    return unusedMs > this.#rateLimit.memoryMs;
  }

  hasRoom(): boolean {
    const circuit = this.#health.circuit(this.#host.steadyNow());
    // Half open counts as room: held tasks may be the only ones that can probe. While one probes, the others stay where they are.
    if (circuit.kind === "open" || (circuit.kind === "half_open" && circuit.probing)) return false;
    return !this.#isFull() && this.#rateLimit.hasRoom();
  }

  /** Takes the task in, if it may start now or by `byMs` (wall clock; default: in two seconds), puts it off, or ends it. */
  offer(task: DeliveryTask, config: DestinationConfig, byMs?: number): void {
    const nowMs = this.#host.clock.now();
    const latestMs = Math.max(nowMs, byMs ?? nowMs + MAX_WAIT_MS);
    this.#lastUsedMs = this.#host.clock.monotonic();
    this.#rateLimit.configure(config);
    // Comes first: the checks below would put it off until another time, which may be sooner.
    if (task.dueAtMs > nowMs + MAX_WAIT_MS)
      return this.#host.putOff(task, config, "early", task.dueAtMs);
    if (this.#putOffIfOpen(task, config)) return;
    if (this.#isFull(task.event.body)) return this.#deferrals.putOffForRoom(task, config);
    if (this.#rateLimit.isTooEarly(task, nowMs)) return this.#offerWhenDue(task, config, latestMs);
    const startAtMs = this.#rateLimit.plan(task, Math.max(nowMs, task.dueAtMs), latestMs);
    if (startAtMs > latestMs) return this.#host.putOff(task, config, "rate_limit", startAtMs);
    this.#host.onQueued(1);
    if (startAtMs <= nowMs) return this.#enqueue(task);
    const waiting = this.#deferrals.waitForLimit(task, config, startAtMs);
    this.#waitFor(waiting, startAtMs - nowMs, () => this.#enqueue(waiting));
  }

  /** Returns the state of a persistent limit for the next owner, once the lane is closed and no try is in flight. */
  lastLimit(): LastLimit | null {
    return this.#rateLimit.last();
  }

  pump(): void {
    if (this.#pumping) return;
    this.#pumping = true;
    try {
      while (this.#startNext());
    } finally {
      this.#pumping = false;
    }
    this.#watchForEviction();
  }

  /** Pumps again after a change of the destination: the receiver may be another one, or fixed. */
  onDestinationChanged(): void {
    this.#health.onReceiverChanged(this.#host.steadyNow());
    this.pump();
  }

  onHeld(): void {
    this.#rateLimit.onHeld();
  }

  /** Closes the lane when ownership ends or the process stops: waiting tasks stay in the log, not complete. */
  close(): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#host.onQueued(-this.queued);
    this.#queue.clear();
    for (const cancel of [this.#cancelRateTimer, this.#cancelEviction]) cancel?.();
    this.#places.forget();
    if (this.isCircuitOpen) this.#host.onCircuit(-1);
  }

  /** Consults the limit only when the task is due: a start planned ahead would hold back everything that comes before it. */
  #offerWhenDue(task: DeliveryTask, config: DestinationConfig, latestMs: number): void {
    this.#host.onQueued(1);
    this.#waitFor(task, task.dueAtMs - this.#host.clock.now(), () => {
      this.#host.onQueued(-1);
      this.offer(task, this.#rateLimit.config ?? config, latestMs);
    });
  }

  #waitFor(task: DeliveryTask, delayMs: number, then: () => void): void {
    const cancel = this.#host.clock.schedule(delayMs, () => {
      this.#queue.removeEarly(task);
      then();
    });
    this.#queue.pushEarly(task, cancel);
  }

  #enqueue(task: DeliveryTask): void {
    if (this.#queue.length === 0 && this.inFlight === 0)
      this.#health.onBusy(this.#host.steadyNow());
    this.#queue.push({ task, enqueuedMs: this.#host.clock.monotonic() });
    this.pump();
  }

  #isFull(more: Uint8Array = NOTHING): boolean {
    const isBusy = this.inFlight > 0 || this.#queue.length > 0;
    const maxWaiting = this.#health.maxWaiting(this.#host.steadyNow(), isBusy);
    return this.#places.isFull(this.#queue.bytes, more) || this.queued >= maxWaiting;
  }

  /** Returns true if the circuit does not let the task through: it is then put off or, past its schedule, ended. */
  #putOffIfOpen(task: DeliveryTask, config: DestinationConfig): boolean {
    const state = this.#health.circuit(this.#host.steadyNow());
    if (state.kind === "closed") return false;
    if (state.kind === "half_open" && !state.probing && this.queued === 0) return false;
    this.#deferrals.putOffForCircuit(task, config, state);
    return true;
  }

  /** Returns true if it did something and more may follow. */
  #startNext(): boolean {
    const next = this.#queue.first;
    if (next === undefined || this.#lookingUp || !this.#host.mayStart()) return false;
    if (this.inFlight >= this.#health.concurrency) return false;
    const found = this.#host.lookUp(this.destinationId);
    if (found instanceof Promise) {
      this.#lookingUp = true;
      void found.then((lookup) => {
        this.#lookingUp = false;
        // If nothing starts, whatever prevents it pumps later: pumping here would look the destination up for ever.
        if (this.#apply(lookup) && this.#startWith(lookup)) this.pump();
      });
      return false;
    }
    return this.#apply(found) && this.#startWith(found);
  }

  /** Returns false if the configuration lets nothing start; the queue is then empty. */
  #apply(lookup: Lookup<DestinationConfig>): lookup is { kind: "found"; value: DestinationConfig } {
    switch (lookup.kind) {
      case "found":
        if (lookup.value.status === "active") return true;
        for (const { task } of this.#takeAll()) this.#host.hold(task);
        return false;
      case "missing":
        for (const { task } of this.#takeAll()) this.#host.endDead(task, null, DESTINATION_DELETED);
        return false;
      case "unavailable":
        for (const { task } of this.#takeAll()) this.#deferrals.putOffForConfig(task);
        return false;
      default:
        return lookup satisfies never;
    }
  }

  #startWith({ value: config }: { readonly value: DestinationConfig }): boolean {
    const next = this.#queue.first;
    if (next === undefined || !this.#host.mayStart()) return false;
    if (this.#host.endIfOver(next.task)) {
      this.#queue.shift();
      this.#host.onQueued(-1);
      return true;
    }
    this.#rateLimit.configure(config);
    const circuit = this.#health.circuit(this.#host.steadyNow());
    if (circuit.kind === "open") {
      for (const { task } of this.#takeAll())
        this.#deferrals.putOffForCircuit(task, config, circuit);
      return false;
    }
    if (circuit.kind === "half_open" && circuit.probing) return false;
    const waitMs = this.#rateLimit.waitMs(() => this.pump());
    if (waitMs > MAX_WAIT_MS) {
      for (const [task, slotMs] of this.#rateLimit.planAgain(this.#takeAll(), waitMs))
        this.#host.putOff(task, config, "rate_limit", slotMs);
      return false;
    }
    if (waitMs > 0) {
      this.#cancelRateTimer?.();
      this.#cancelRateTimer = this.#host.clock.schedule(waitMs, () => this.pump());
      return false;
    }
    const leave = this.#places.tryEnter(next.task, config.receiverUrl);
    if (leave === null) return false;
    this.#start(config, leave);
    return true;
  }

  #start(config: DestinationConfig, leave: () => void): void {
    const next = this.#queue.shift()!;
    this.#host.onQueued(-1);
    const token = this.#rateLimit.start();
    const startedFor = this.#health.onStart(this.#host.steadyNow(), this.inFlight);
    void this.#host.makeTry(next.task, config, token.onSent).then((reply) => {
      token.onAnswered();
      this.#learn(startedFor, reply, next.task);
      leave();
      this.pump();
    });
  }

  #learn(startedFor: StartedFor, reply: Reply | null, task: DeliveryTask): void {
    this.#lastUsedMs = this.#host.clock.monotonic();
    const wasOpen = this.isCircuitOpen;
    const newRunMs = task.tryNumber === 1 ? task.runStartedAtMs : null;
    const moment = { steadyMs: this.#host.steadyNow(), wallMs: this.#host.clock.now() };
    this.#health.onReply(startedFor, reply, newRunMs, moment);
    if (wasOpen !== this.isCircuitOpen && !this.#isClosed) this.#host.onCircuit(wasOpen ? -1 : 1);
  }

  #takeAll(): QueuedTry[] {
    const all = this.#queue.takeAll();
    this.#places.stopWaiting();
    this.#host.onQueued(-all.length);
    return all;
  }

  /** Schedules the deferral of what has waited two seconds: a hung receiver must not hold up its partition. */
  #watchForEviction(): void {
    const first = this.#queue.first;
    if (first === undefined || this.#cancelEviction !== null) return;
    const leftMs = MAX_WAIT_MS - (this.#host.clock.monotonic() - first.enqueuedMs);
    const waitMs = Math.max(EVICTION_STEP_MS, leftMs);
    this.#cancelEviction = scheduleAwake(this.#host.clock, waitMs, () => this.#evict());
  }

  #evict(): void {
    const wasLookingUp = this.#lookingUp;
    this.pump(); // It may only have waited until ownership was certain. What does not start now is put off or checked again below.
    this.#cancelEviction = null;
    const { config, writingForMs } = this.#rateLimit;
    const waitedSinceMs = this.#host.clock.monotonic() - MAX_WAIT_MS - writingForMs;
    if (this.#host.mayStart() && !wasLookingUp && config !== null)
      for (const { task } of this.#queue.takeOlder(waitedSinceMs)) {
        this.#host.onQueued(-1);
        if (!this.#putOffIfOpen(task, config)) this.#deferrals.putOffForRoom(task, config);
      }
    this.pump(); // What waited behind it may be smaller.
    if (this.#queue.length === 0) this.#places.stopWaiting();
  }
}
