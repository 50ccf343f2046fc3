import type { RateLimitWindow } from "../../src/domain/enums.ts";
import { rateWindowMs } from "../../src/domain/rate-limit.ts";
import type { EventRecord } from "../../src/domain/event.ts";
import { decodeOutcome } from "../../src/pipeline/log/outcome-codec.ts";
import { answer, FAIL, HANG, OK, SimWorld } from "./sim-world.ts";
import type { Behaviour, SimProcess } from "./sim-world.ts";
import { seededRandom } from "./sim-clock.ts";

const SESSION_MS = 2_000;
const TIMEOUT_MS = 15_000;
const CHAOS_MS = 90_000;
const CALM_MS = 12 * 3_600_000;

interface LimitPeriod {
  readonly fromMs: number;
  readonly max: number | null;
  readonly window: RateLimitWindow | null;
}

interface History {
  readonly limits: LimitPeriod[];
  /** From, to. */
  readonly paused: [number, number][];
  wasAlwaysActive: boolean;
  deletedAtMs: number | null;
  isFast: boolean;
}

/** What one seed draws. */
interface Plan {
  readonly crashes: boolean;
  readonly rebalances: boolean;
  readonly eager: boolean;
  readonly logFaults: boolean;
  readonly unknownAppends: boolean;
  readonly torn: boolean;
  readonly asyncConfig: boolean;
}

/** Runs one seed from start to calm. @returns what was violated, empty when all promises held */
export async function runSeed(seed: number): Promise<string[]> {
  const chaos = new Chaos(seed);
  await chaos.run();
  return chaos.violations();
}

class Chaos {
  readonly #random: () => number;
  readonly #world: SimWorld;
  readonly #plan: Plan;
  readonly #processes: SimProcess[] = [];
  readonly #history = new Map<string, History>();
  readonly #events: EventRecord[] = [];
  readonly #replays: {
    readonly event: EventRecord;
    readonly destinationId: string;
    readonly run: string;
  }[] = [];
  readonly #disturbedAt: number[] = [];
  #names = 0;
  #stuck: string | null = null;

  constructor(seed: number) {
    this.#random = seededRandom(seed);
    const some = (share: number): boolean => this.#random() < share;
    this.#plan = {
      crashes: some(0.5),
      rebalances: some(0.4),
      eager: some(0.3),
      logFaults: some(0.3),
      unknownAppends: some(0.15),
      torn: some(0.3),
      asyncConfig: some(0.3),
    };
    this.#world = new SimWorld({
      seed: seed ^ 0x5bd1e995,
      partitions: 1 + this.#int(3),
      delivery: {
        retryBaseMs: 2_000,
        takeoverWaitMs: SESSION_MS + TIMEOUT_MS,
        concurrency: some(0.5) ? 64 : 4,
        maxInFlight: some(0.2) ? 8 : 4_096,
        breaker: { failures: 20, minStreakMs: 10_000, openMs: 5_000, maxOpenMs: 60_000 },
      },
    });
    this.#world.networkMs = () => 1 + this.#random() * 20;
    this.#setFaults(true);
    if (this.#plan.asyncConfig) this.#world.configKind = "async";
  }

  async run(): Promise<void> {
    this.#makeDestinations();
    await this.#startProcess();
    if (this.#random() < 0.5) await this.#startProcess();
    const endMs = this.#world.clock.now() + CHAOS_MS;
    while (this.#world.clock.now() < endMs) {
      await this.#disturb();
      await this.#world.clock.advance(this.#random() < 0.3 ? 20 : this.#random() * 4_000);
    }
    await this.#calm();
  }

  violations(): string[] {
    const found: string[] = [];
    if (this.#stuck !== null) found.push(this.#stuck);
    this.#checkEnds(found);
    this.#checkLimits(found);
    this.#checkRows(found);
    this.#checkDuplicates(found);
    this.#checkPaused(found);
    this.#checkFast(found);
    for (const { message, fields } of this.#world.errors)
      found.push(`error logged: ${message} ${JSON.stringify(fields)}`);
    return found;
  }

  #int(below: number): number {
    return Math.floor(this.#random() * below);
  }

  #pick<T>(items: readonly T[]): T {
    return items[this.#int(items.length)]!;
  }

  #setFaults(on: boolean): void {
    const { logFaults, unknownAppends, torn } = this.#plan;
    this.#world.store.faults = {
      appendMs: () => 1 + this.#random() * (on ? 8 : 2),
      appendFate: () => {
        const draw = this.#random();
        if (on && logFaults && draw < 0.05) return "lost";
        return on && unknownAppends && draw > 0.97 ? "unknown" : "ok";
      },
      tornAt: (records) => {
        if (!torn) return this.#random() < 0.5 ? 0 : records;
        return this.#int(records + 1);
      },
    };
  }

  #makeDestinations(): void {
    const count = 2 + this.#int(4);
    for (let index = 0; index < count; index += 1) {
      const id = `dst_${index}`;
      const isFast = index === 0;
      this.#history.set(id, {
        limits: [],
        paused: [],
        wasAlwaysActive: true,
        deletedAtMs: null,
        isFast,
      });
      this.#world.behave(id, isFast ? OK : this.#behaviour());
      this.#world.configure(id, {
        endpointId: `ep_${isFast ? 0 : this.#int(3)}`,
        retryMaxAttempts: this.#int(6),
        retryBackoff: this.#pick(["exponential", "linear", "fixed"] as const),
      });
      if (!isFast && this.#random() < 0.6) this.#changeLimit(id);
      else this.#noteLimit(id);
    }
  }

  #behaviour(): Behaviour {
    const draw = this.#random();
    if (draw < 0.35) return OK;
    if (draw < 0.45) return HANG;
    if (draw < 0.55) return FAIL;
    if (draw < 0.65) return () => ({ afterMs: 3_000, reply: answer(200) });
    if (draw < 0.72) return () => ({ afterMs: 10, reply: answer(503, "", String(this.#int(20))) });
    return (seen, nth) => this.#pick([OK, OK, FAIL, HANG, OK])(seen, nth);
  }

  #changeLimit(id: string): void {
    if (this.#random() < 0.2)
      this.#world.configure(id, { rateLimitMax: null, rateLimitWindow: null });
    else {
      const max = 1 + this.#int(6);
      const window = this.#pick([
        "second",
        "second",
        "second",
        "minute",
        "minute",
        "hour",
      ] as const);
      // Slots that were given out stand when a limit is lifted: they must be over when all is calm.
      this.#world.configure(id, {
        rateLimitMax: window === "hour" ? 10 * max : max,
        rateLimitWindow: window,
      });
    }
    this.#noteLimit(id);
  }

  #noteLimit(id: string): void {
    const { rateLimitMax: max, rateLimitWindow: window } = this.#world.destinations.get(id)!;
    this.#history.get(id)!.limits.push({ fromMs: this.#world.clock.now(), max, window });
  }

  async #startProcess(): Promise<void> {
    this.#names += 1;
    this.#disturbedAt.push(this.#world.clock.now());
    this.#processes.push(await this.#world.start(`p${this.#names}`));
    this.#disturbedAt.push(this.#world.clock.now());
  }

  async #disturb(): Promise<void> {
    const draw = this.#random();
    if (draw < 0.55) {
      for (let left = 1 + this.#int(6); left > 0; left -= 1)
        this.#events.push(
          this.#world.ingest({
            endpointId: `ep_${this.#int(3)}`,
            signatureValid: this.#random() > 0.1,
          }),
        );
      return;
    }
    const id = this.#pick([...this.#history.keys()]);
    const history = this.#history.get(id)!;
    if (draw < 0.62) return this.#replayOne();
    if (draw < 0.7 && !history.isFast) return this.#togglePause(id, history);
    if (draw < 0.75 && !history.isFast && history.deletedAtMs === null)
      return this.#changeLimit(id);
    if (draw < 0.77 && !history.isFast) {
      history.wasAlwaysActive = false;
      history.deletedAtMs ??= this.#world.clock.now();
      return this.#world.remove(id);
    }
    if (draw < 0.82 && !history.isFast) return this.#world.behave(id, this.#behaviour());
    if (draw < 0.9 && this.#plan.crashes) return this.#crash();
    if (draw < 0.95 && this.#plan.rebalances) {
      this.#disturbedAt.push(this.#world.clock.now());
      void this.#world.store.rotate("delivery", this.#plan.eager);
      void this.#world.store.rotate("delay", this.#plan.eager);
    } else if (draw < 0.98 && this.#plan.rebalances) await this.#stopOrStart();
  }

  #replayOne(): void {
    const event = this.#pick(this.#events.length > 0 ? this.#events : [this.#world.makeEvent()]);
    const ids = [...this.#world.destinations.values()].filter(
      (one) => one.endpointId === event.endpointId,
    );
    if (ids.length === 0 || !this.#events.includes(event)) return;
    const destinationId = this.#pick(ids).id;
    const run = `run${this.#replays.length}`;
    this.#replays.push({ event, destinationId, run });
    this.#world.replay(event, destinationId, run);
  }

  #togglePause(id: string, history: History): void {
    if (history.deletedAtMs !== null) return;
    history.wasAlwaysActive = false;
    const nowMs = this.#world.clock.now();
    const last = history.paused.at(-1);
    if (last !== undefined && last[1] === Number.POSITIVE_INFINITY) {
      last[1] = nowMs;
      this.#world.configure(id, { status: "active" });
    } else {
      history.paused.push([nowMs, Number.POSITIVE_INFINITY]);
      this.#world.configure(id, { status: "paused" });
    }
  }

  async #crash(): Promise<void> {
    const alive = this.#processes.filter((process) => process.alive);
    if (alive.length === 0) return;
    this.#disturbedAt.push(this.#world.clock.now());
    void this.#world.store.kill(this.#pick(alive), SESSION_MS);
    if (alive.length === 1 || this.#random() < 0.5) {
      await this.#world.clock.advance(this.#random() * 3_000);
      await this.#startProcess();
    }
  }

  async #stopOrStart(): Promise<void> {
    const alive = this.#processes.filter((process) => process.alive);
    this.#disturbedAt.push(this.#world.clock.now());
    if (alive.length < 2) return this.#startProcess();
    const [leaving] = alive;
    await this.#world.stop(leaving!);
    leaving!.alive = false;
    this.#disturbedAt.push(this.#world.clock.now());
  }

  /** Everybody is well again: everything has to end. */
  async #calm(): Promise<void> {
    this.#setFaults(false);
    if (!this.#processes.some((process) => process.alive)) await this.#startProcess();
    for (const [id, history] of this.#history) {
      this.#world.behave(id, OK);
      const last = history.paused.at(-1);
      if (last?.[1] === Number.POSITIVE_INFINITY && history.deletedAtMs === null)
        this.#togglePause(id, history);
      if (history.deletedAtMs === null) {
        this.#world.configure(id, { rateLimitMax: null, rateLimitWindow: null });
        this.#noteLimit(id);
      }
    }
    const endMs = this.#world.clock.now() + CALM_MS;
    for (
      let stepMs = 60_000;
      this.#world.clock.now() < endMs;
      stepMs = Math.min(stepMs * 2, 1_800_000)
    ) {
      if (this.#missing().length === 0) break;
      await this.#world.clock.advance(stepMs);
    }
    const missing = this.#missing();
    if (missing.length > 0) this.#stuck = `I2: never ended: ${missing.slice(0, 5).join(", ")}`;
    await this.#world.clock.advance(120_000);
  }

  /** Runs that must end and have not. */
  #missing(): string[] {
    const ended = this.#world.ended();
    return [...this.#expected()].filter((run) => !ended.has(run));
  }

  #expected(): Set<string> {
    const runs = new Set<string>();
    for (const outcome of this.#world.outcomes())
      if (outcome.kind === "fanout")
        for (const id of outcome.destinationIds)
          runs.add(`${outcome.eventId}|${id}|${outcome.run}`);
    for (const { event, destinationId, run } of this.#replays)
      runs.add(`${event.id}|${destinationId}|${run}`);
    for (const [id, history] of this.#history) {
      const endpointId = this.#world.destinations.get(id)?.endpointId;
      if (history.wasAlwaysActive)
        for (const event of this.#events)
          if (event.signatureValid && event.endpointId === endpointId)
            runs.add(`${event.id}|${id}|event`);
    }
    return runs;
  }

  #checkEnds(found: string[]): void {
    const expected = this.#expected();
    for (const run of this.#world.ended().keys())
      if (!expected.has(run)) found.push(`ended but never begun: ${run}`);
    const open = this.#world.store.partitions;
    for (let partition = 0; partition < open; partition += 1)
      for (const topic of ["events", "tasks"] as const) {
        const committed = this.#world.store.committed("delivery", topic, partition)?.offset ?? 0;
        const end = this.#world.store.records(topic, partition).length;
        if (this.#stuck === null && committed < end)
          found.push(`not committed: ${topic}/${partition} ${committed} of ${end}`);
      }
  }

  #checkLimits(found: string[]): void {
    for (const [id, { limits }] of this.#history)
      for (const [index, { fromMs, max, window }] of limits.entries()) {
        if (max === null || window === null) continue;
        const untilMs = limits[index + 1]?.fromMs ?? Number.POSITIVE_INFINITY;
        // What was on its way when the limit changed belongs to the one before.
        const times = this.#world
          .requestsTo(id)
          .map((seen) => seen.atMs)
          .filter((atMs) => atMs >= fromMs + 25 && atMs < untilMs);
        for (let at = max; at < times.length; at += 1)
          if (times[at]! - times[at - max]! < rateWindowMs(window))
            found.push(
              `I4: ${id} saw ${max + 1} requests in ${times[at]! - times[at - max]!} ms at ${times[at]}, limit ${max} per ${window}`,
            );
      }
  }

  #checkRows(found: string[]): void {
    const rows = this.#world.attempts().filter((row) => row.status !== "rate_limited");
    const known = new Set(
      rows.map((row) => `${row.destinationId}|${row.eventId}|${row.trigger}|${row.tryNumber}`),
    );
    for (const { destinationId, eventId, trigger, attempt } of this.#world.seen)
      if (!known.has(`${destinationId}|${eventId}|${trigger}|${attempt}`))
        found.push(`I7: no row for ${destinationId} ${eventId} ${trigger} try ${attempt}`);
    const tries = new Map<string, Set<number>>();
    for (const { eventId, destinationId, run, tryNumber } of rows) {
      const key = `${eventId}|${destinationId}|${run}`;
      tries.set(key, (tries.get(key) ?? new Set()).add(tryNumber));
    }
    for (const [key, numbers] of tries)
      if (Math.max(...numbers) !== numbers.size)
        found.push(`I7: gap in ${key}: ${[...numbers].join(" ")}`);
  }

  /** A second request for a try whose end was durable when the first owner could have known it. */
  #checkDuplicates(found: string[]): void {
    if (this.#plan.unknownAppends) return;
    const endedAt = new Map<string, number>();
    for (const record of this.#world.store.all("attempts")) {
      const outcome = decodeOutcome(record.value);
      if (outcome.kind !== "attempt" || outcome.attempt.status === "rate_limited") continue;
      const { destinationId, eventId, trigger, run, tryNumber } = outcome.attempt;
      const key = `${destinationId}|${eventId}|${run}|${tryNumber}`;
      if (trigger === "event" && !endedAt.has(key)) endedAt.set(key, record.appendedAtMs);
    }
    for (const { destinationId, eventId, trigger, attempt, atMs } of this.#world.seen) {
      if (trigger !== "event") continue;
      const key = `${destinationId}|${eventId}|event|${attempt}`;
      const ended = endedAt.get(key);
      // 25 ms: the network, and an end that became durable while the request was on its way.
      if (ended !== undefined && ended < atMs - 50)
        found.push(`I8: ${key} sent at ${atMs}, its end was durable at ${ended}`);
    }
  }

  #checkPaused(found: string[]): void {
    for (const [id, { paused, deletedAtMs }] of this.#history)
      for (const { atMs, eventId } of this.#world.requestsTo(id)) {
        const during = paused.find(([from, to]) => atMs > from + 30 && atMs < to);
        if (during !== undefined) found.push(`paused ${id} was sent ${eventId} at ${atMs}`);
        if (deletedAtMs !== null && atMs > deletedAtMs + 30)
          found.push(`deleted ${id} was sent ${eventId} at ${atMs}`);
      }
  }

  /** I9: what others do delays nobody; only a crash or a rebalance of its own owner may. */
  #checkFast(found: string[]): void {
    if (this.#plan.logFaults || this.#plan.unknownAppends) return;
    for (const event of this.#events) {
      if (!event.signatureValid || event.endpointId !== "ep_0") continue;
      const first = this.#world.seen.find(
        (seen) => seen.eventId === event.id && seen.destinationId === "dst_0",
      );
      const atMs = first?.atMs ?? Number.POSITIVE_INFINITY;
      const disturbed = this.#disturbedAt.some(
        (time) => time >= event.receivedAtMs - 45_000 && time <= atMs,
      );
      if (!disturbed && atMs - event.receivedAtMs > 250)
        found.push(`I9: ${event.id} waited ${atMs - event.receivedAtMs} ms for dst_0`);
    }
  }
}
