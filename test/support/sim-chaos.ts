import type { EventRecord } from "../../src/domain/event.ts";
import { DELAY_TIERS } from "../../src/domain/delay-tier.ts";
import { answer, FAIL, OK, SimWorld } from "./sim-world.ts";
import type { Behaviour, SimProcess } from "./sim-world.ts";
import { seededRandom } from "./sim-clock.ts";
import { SLOW_CONNECT_MS } from "./sim-facts.ts";
import { expectedRuns } from "./sim-history.ts";
import type { Freeze, History, Replay, Story } from "./sim-history.ts";
import { drawPlan } from "./sim-plan.ts";
import type { Action, Plan, ReceiverKind } from "./sim-plan.ts";

const MAX_PARTITIONS = 6;
const CALM_MS = 12 * 3_600_000;

/** Runs the world of one seed from its start until all is calm. */
export async function liveThrough(seed: number): Promise<Story> {
  const chaos = new Chaos(seed);
  await chaos.run();
  return chaos.story();
}

class Chaos {
  readonly #random: () => number;
  readonly #world: SimWorld;
  readonly #plan: Plan;
  readonly #processes: SimProcess[] = [];
  readonly #histories = new Map<string, History>();
  readonly #events: EventRecord[] = [];
  readonly #replays: Replay[] = [];
  readonly #disturbedAt: number[] = [];
  readonly #freezes: Freeze[] = [];
  #names = 0;
  #stuck: string | null = null;

  constructor(seed: number) {
    this.#plan = drawPlan(seed);
    this.#random = seededRandom(seed);
    this.#world = new SimWorld({
      seed: seed ^ 0x5bd1e995,
      partitions: this.#plan.partitions,
      delivery: this.#plan.delivery,
    });
    this.#world.networkMs = () => 1 + this.#random() * 20;
    if (this.#plan.slowConnects)
      this.#world.connectMs = () => (this.#random() < 0.3 ? this.#random() * SLOW_CONNECT_MS : 0);
    this.#setFaults(true);
    if (this.#plan.asyncConfig) this.#world.configKind = "async";
    this.#world.tellsChanges = !this.#plan.lostNotices;
  }

  async run(): Promise<void> {
    this.#makeDestinations();
    for (let count = 0; count < this.#plan.processes; count += 1) await this.#startProcess();
    // Nothing was owned at first, so there is no takeover to wait for.
    this.#disturbedAt.length = 0;
    if (this.#plan.kind === "crowd") await this.#warmUp();
    const endMs = this.#world.clock.now() + this.#plan.chaosMs;
    while (this.#world.clock.now() < endMs) {
      await this.#do(this.#draw());
      const stepMs = this.#random() < 0.3 ? 20 : this.#random() * this.#plan.stepMs;
      await this.#world.clock.advance(stepMs);
    }
    await this.#calm();
  }

  story(): Story {
    return {
      plan: this.#plan,
      world: this.#world,
      histories: this.#histories,
      events: this.#events,
      replays: this.#replays,
      disturbedAt: this.#disturbedAt,
      freezes: this.#freezes,
      stuck: this.#stuck,
    };
  }

  #int(below: number): number {
    return Math.floor(this.#random() * below);
  }

  #pick<T>(items: readonly T[]): T {
    return items[this.#int(items.length)]!;
  }

  #draw(): Action {
    const { actions } = this.#plan;
    const total = actions.reduce((sum, [, weight]) => sum + weight, 0);
    let left = this.#random() * total;
    for (const [action, weight] of actions) {
      left -= weight;
      if (left < 0) return action;
    }
    return "ingest";
  }

  #setFaults(on: boolean): void {
    const { logFaults, unknownAppends, torn, gaps } = this.#plan;
    this.#world.store.writesWhole = !torn;
    this.#world.store.faults = {
      appendMs: () => 1 + this.#random() * (on ? 8 : 2),
      appendFate: () => {
        const draw = this.#random();
        if (on && logFaults && draw < 0.05) return "lost";
        return on && unknownAppends && draw > 0.97 ? "unknown" : "ok";
      },
      torn: (slots) => {
        if (!torn) return new Set(this.#random() < 0.5 ? [] : slots);
        return new Set(slots.filter(() => this.#random() < 0.5));
      },
      ...(gaps ? { gap: () => (this.#random() < 0.2 ? 5_000 : 0) } : {}),
    };
  }

  #makeDestinations(): void {
    const plan = this.#plan;
    for (let index = 0; index < plan.destinations; index += 1) {
      const id = `dst_${index}`;
      const isFast = index === 0 && plan.kind !== "limits";
      const receiver = isFast ? "ok" : this.#pick(plan.receivers);
      const drawn = isFast ? 0 : this.#int(plan.endpoints);
      let endpoint = drawn;
      if (plan.kind === "crowd" && !isFast) endpoint = 1;
      if (plan.kind === "large" && !isFast) endpoint = Math.max(1, drawn);
      const endpointId = `ep_${endpoint}`;
      this.#histories.set(id, {
        id,
        endpointId,
        limits: [],
        paused: [],
        wasAlwaysActive: receiver !== "gone",
        wasAlwaysOk: receiver === "ok",
        deletedAtMs: null,
        isFast,
      });
      this.#world.behave(id, this.#behaviour(receiver));
      this.#world.configure(id, {
        endpointId,
        retryMaxAttempts: this.#int(plan.maxRetries + 1),
        retryBackoff: this.#pick(["exponential", "linear", "fixed"] as const),
      });
      if (!isFast && this.#random() < plan.limitedShare) this.#changeLimit(id);
      else this.#noteLimit(id);
    }
  }

  #behaviour(kind: ReceiverKind): Behaviour {
    switch (kind) {
      case "ok":
        return OK;
      case "fail":
        return FAIL;
      case "hang":
        return this.#hang();
      case "slow":
        return () => ({ afterMs: 1_500, reply: answer(200) });
      case "retry_after":
        return () => ({ afterMs: 10, reply: answer(503, "", String(this.#int(12))) });
      case "gone":
        return () => ({ afterMs: 10, reply: answer(this.#random() < 0.3 ? 410 : 200) });
      case "mixed":
        return (seen, nth) => this.#pick([OK, OK, FAIL, this.#hang(), OK])(seen, nth);
      default:
        return kind satisfies never;
    }
  }

  #hang(): Behaviour {
    const { timeoutMs } = this.#plan;
    return () => ({
      afterMs: timeoutMs,
      reply: { kind: "timeout", reason: "no answer in time", latencyMs: timeoutMs },
    });
  }

  #changeLimit(id: string): void {
    if (this.#plan.kind !== "limits" && this.#random() < 0.2)
      this.#world.configure(id, { rateLimitMax: null, rateLimitWindow: null });
    else {
      const max = 1 + this.#int(6);
      const window = this.#pick(this.#plan.windows);
      // Slots already given out stand when a limit is lifted: they must be over by the time all is calm.
      this.#world.configure(id, {
        rateLimitMax: window === "hour" ? 10 * max : max,
        rateLimitWindow: window,
      });
    }
    this.#noteLimit(id);
  }

  #noteLimit(id: string): void {
    const { rateLimitMax: max, rateLimitWindow: window } = this.#world.destinations.get(id)!;
    this.#histories.get(id)!.limits.push({ fromMs: this.#world.clock.now(), max, window });
  }

  async #startProcess(): Promise<void> {
    this.#names += 1;
    this.#noteDisturbance();
    const skewMs = this.#plan.skewMs * (this.#random() - 0.5);
    this.#processes.push(await this.#world.start(`p${this.#names}`, skewMs));
    this.#noteDisturbance();
  }

  #noteDisturbance(): void {
    this.#disturbedAt.push(this.#world.clock.now());
  }

  /** Lets the healthy receiver prove itself, and gives the others work to hang on. */
  async #warmUp(): Promise<void> {
    this.#events.push(this.#world.ingest({ endpointId: "ep_0" }));
    await this.#world.clock.advance(100);
    for (let count = 0; count < 12; count += 1)
      this.#events.push(this.#world.ingest({ endpointId: "ep_1" }));
    await this.#world.clock.advance(50);
  }

  async #do(action: Action): Promise<void> {
    switch (action) {
      case "ingest":
        return this.#ingest();
      case "replay":
        return this.#replayOne();
      case "crash":
        return this.#crash();
      case "crash_in_append":
        return this.#crashInAppend();
      case "rotate":
        this.#noteDisturbance();
        void this.#world.store.rotate("delivery", this.#plan.eager);
        void this.#world.store.rotate("delay", this.#plan.eager);
        return undefined;
      case "rotate_delay":
        this.#noteDisturbance();
        void this.#world.store.rotate("delay", true);
        return undefined;
      case "grow":
        return this.#grow();
      case "stop_or_start":
        return this.#stopOrStart();
      case "freeze":
        return this.#freeze();
      case "doubt":
        return this.#doubt();
      case "config":
        return this.#loseConfiguration();
      case "pause":
      case "limit":
      case "remove":
      case "behave":
        return this.#change(action);
      default:
        return action satisfies never;
    }
  }

  /** Adds partitions: appends use them at once, groups learn of them some time later. */
  #grow(): void {
    const { store, clock } = this.#world;
    if (store.partitions >= MAX_PARTITIONS) return;
    this.#noteDisturbance();
    store.grow(store.partitions + 1 + this.#int(2));
    clock.schedule(this.#int(3_000), () => {
      this.#noteDisturbance();
      void store.regroup().then(() => this.#noteDisturbance());
    });
  }

  #ingest(): void {
    for (let left = 1 + this.#int(this.#plan.burst); left > 0; left -= 1) {
      const endpoint = this.#int(this.#plan.endpoints);
      const isLarge = this.#plan.largeBytes > 0 && endpoint > 0;
      this.#events.push(
        this.#world.ingest({
          endpointId: `ep_${endpoint}`,
          signatureValid: this.#random() > 0.1,
          ...(isLarge ? { body: Buffer.alloc(this.#int(this.#plan.largeBytes), "x") } : {}),
        }),
      );
    }
  }

  #change(action: "pause" | "limit" | "remove" | "behave"): void {
    const history = this.#pick([...this.#histories.values()]);
    if (history.isFast || history.deletedAtMs !== null) return;
    const { id } = history;
    if (action === "pause") this.#togglePause(history);
    else if (action === "limit") this.#changeLimit(id);
    else if (action === "behave") {
      const kind = this.#pick(this.#plan.receivers);
      history.wasAlwaysOk = false;
      if (kind === "gone") history.wasAlwaysActive = false;
      this.#world.behave(id, this.#behaviour(kind));
    } else {
      history.wasAlwaysActive = false;
      history.deletedAtMs = this.#world.clock.now();
      this.#world.remove(id);
    }
  }

  /** Replays an event, at most once per destination, so that a request shows which run it belongs to. */
  #replayOne(): void {
    if (this.#events.length === 0) return;
    const event = this.#pick(this.#events);
    const ids = [...this.#world.destinations.values()].filter(
      (one) =>
        one.endpointId === event.endpointId &&
        !this.#replays.some((replay) => replay.event === event && replay.destinationId === one.id),
    );
    if (ids.length === 0) return;
    const destinationId = this.#pick(ids).id;
    const run = `run${this.#replays.length}`;
    this.#replays.push({ event, destinationId, run, atMs: this.#world.clock.now() });
    this.#world.replay(event, destinationId, run);
  }

  #togglePause(history: History): void {
    history.wasAlwaysActive = false;
    const nowMs = this.#world.clock.now();
    const last = history.paused.at(-1);
    if (last !== undefined && last[1] === Number.POSITIVE_INFINITY) {
      last[1] = nowMs;
      this.#world.configure(history.id, { status: "active" });
    } else {
      history.paused.push([nowMs, Number.POSITIVE_INFINITY]);
      this.#world.configure(history.id, { status: "paused" });
    }
  }

  #alive(): SimProcess[] {
    return this.#processes.filter((process) => process.alive);
  }

  async #crash(victim?: SimProcess): Promise<void> {
    const alive = this.#alive();
    const dying = victim ?? (alive.length > 0 ? this.#pick(alive) : undefined);
    if (dying === undefined) return;
    this.#noteDisturbance();
    void this.#world.store.kill(dying, this.#plan.sessionMs);
    if (alive.length > 1 && this.#random() < 0.5) return;
    await this.#world.clock.advance(100 + this.#random() * 2_000);
    await this.#startProcess();
  }

  /** Makes a process die during its next append of several records: any part of it may be durable. */
  async #crashInAppend(): Promise<void> {
    const dying: SimProcess[] = [];
    this.#world.store.watchAppend = (process, records) => {
      const victim = this.#alive().find((one) => one.name === process.name);
      if (records.length < 2 || victim === undefined || dying.length > 0) return;
      victim.alive = false;
      dying.push(victim);
    };
    for (let waits = 0; waits < 20 && dying.length === 0; waits += 1)
      await this.#world.clock.advance(100);
    this.#world.store.watchAppend = null;
    for (const victim of dying) await this.#crash(victim);
  }

  async #stopOrStart(): Promise<void> {
    const alive = this.#alive();
    if (this.#plan.sessionMs === 0) {
      // With a single owner, this is a restart.
      for (const process of alive) await this.#stop(process);
      return this.#startProcess();
    }
    return alive.length < 2 ? this.#startProcess() : this.#stop(alive[0]!);
  }

  async #stop(process: SimProcess): Promise<void> {
    this.#noteDisturbance();
    await this.#world.stop(process);
    process.alive = false;
    this.#noteDisturbance();
  }

  #freeze(): void {
    const alive = this.#alive();
    if (alive.length < 2) return;
    this.#noteDisturbance();
    const forMs = 500 + this.#random() * 8_000;
    const process = this.#pick(alive);
    const nowMs = this.#world.clock.now();
    this.#freezes.push({ process: process.name, fromMs: nowMs, toMs: nowMs + forMs });
    void this.#world.store.freeze(process, forMs, this.#plan.sessionMs);
    this.#world.clock.schedule(this.#plan.sessionMs, () => this.#noteDisturbance());
    this.#world.clock.schedule(forMs, () => this.#noteDisturbance());
  }

  /** Makes a process doubt for a while that its session lasts; it does, and no other takes over. */
  #doubt(): void {
    const alive = this.#alive();
    if (alive.length === 0) return;
    const forMs = 200 + this.#random() * 4_000;
    this.#noteDisturbance();
    this.#pick(alive).inDoubtUntilMs = this.#world.clock.now() + forMs;
    this.#world.clock.schedule(forMs, () => this.#noteDisturbance());
  }

  async #loseConfiguration(): Promise<void> {
    const { configKind } = this.#world;
    this.#noteDisturbance();
    this.#world.configKind = "unavailable";
    await this.#world.clock.advance(this.#random() * 4_000);
    this.#world.configKind = configKind;
    this.#noteDisturbance();
  }

  /** Ends all faults: everything must then come to its end. */
  async #calm(): Promise<void> {
    this.#setFaults(false);
    for (const process of this.#processes)
      await this.#world.clock.advance(
        process.alive ? Math.max(0, (process.wakesAtMs ?? 0) - this.#world.clock.now()) : 0,
      );
    if (this.#alive().length === 0) await this.#startProcess();
    for (const [id, history] of this.#histories) {
      this.#world.behave(id, OK);
      if (history.deletedAtMs !== null) continue;
      if (history.paused.at(-1)?.[1] === Number.POSITIVE_INFINITY) this.#togglePause(history);
      this.#world.configure(id, {
        status: "active",
        rateLimitMax: null,
        rateLimitWindow: null,
      });
      this.#noteLimit(id);
    }
    const endMs = this.#world.clock.now() + CALM_MS;
    for (let stepMs = 1_000; ; stepMs = Math.min(stepMs * 2, 1_800_000)) {
      await this.#world.clock.advance(stepMs);
      this.#activateDisabled();
      if (this.#isDrained() && this.#missing().length === 0) return;
      if (this.#world.clock.now() > endMs) break;
    }
    const missing = this.#missing();
    this.#stuck =
      missing.length > 0
        ? `I2: never ended: ${missing.slice(0, 5).join(", ")}`
        : "not committed, or still in a delay tier";
  }

  /** Activates destinations disabled by a 410 that was on its way when all faults ended. */
  #activateDisabled(): void {
    for (const [id, { status }] of this.#world.destinations)
      if (status === "disabled") this.#world.configure(id, { status: "active" });
  }

  /** Tells whether nothing waits in any topic. */
  #isDrained(): boolean {
    const { store } = this.#world;
    for (let partition = 0; partition < store.partitions; partition += 1) {
      for (const topic of ["events", "tasks"] as const) {
        const committed = store.committed("delivery", topic, partition)?.offset ?? 0;
        if (committed < store.endOffset(topic, partition)) return false;
      }
      for (const { topic } of DELAY_TIERS) {
        const committed = store.committed("delay", topic, partition)?.offset ?? 0;
        if (committed < store.endOffset(topic, partition)) return false;
      }
    }
    return true;
  }

  #missing(): string[] {
    const ended = this.#world.ended();
    const expected = expectedRuns({ ...this.story() });
    return [...expected].filter((run) => !ended.has(run));
  }
}
