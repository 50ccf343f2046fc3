import type { Clock } from "../../../domain/clock.ts";
import type { DeliveryTask } from "../../../domain/delivery-task.ts";
import type { DestinationConfig } from "../../../domain/destination.ts";
import { rateWindowMs, tokenReturnMs } from "../../../domain/rate-limit.ts";
import type { Starts } from "../../../domain/rate-limit.ts";
import { ExpectedTasks } from "./expected-tasks.ts";
import { shiftLimit, startsOf } from "../limits/limits-codec.ts";
import type { LimitRecord } from "../limits/limits-codec.ts";
import type { DeliveryOptions } from "../ports.ts";
import type { PartitionLimits } from "../limits/partition-limits.ts";
import { DestinationRateLimiter } from "../limits/destination-rate-limiter.ts";

const NO_WAIT_MS = 0;
/** Retried when the block could not be written yet. */
const RESERVING_WAIT_MS = 1_000;
const ROOM_MS = 1_000;

/** One try under the limit. */
export interface UsedToken {
  readonly onSent: () => void;
  readonly onAnswered: () => void;
}

/** The state of a limit when its lane ends. */
export interface LastLimit {
  readonly record: LimitRecord;
  readonly endpointId: string;
}

const UNLIMITED: UsedToken = { onSent: () => undefined, onAnswered: () => undefined };

export interface LimitsHost {
  readonly clock: Clock;
  readonly options: Pick<DeliveryOptions, "deliveryTimeoutMs">;
  /** Never goes back and never jumps, ms: what windows are measured by. */
  steadyNow(): number;
  /** What the `limits` log knew at the assignment, and what has come there since from former homes. */
  readonly limits: Pick<PartitionLimits, "get" | "areComplete" | "late">;
  /** When this owner began: a window of a second counts as used up then. */
  readonly assignedSteadyMs: number;
  /** True once durable. */
  writeLimit(record: LimitRecord, endpointId: string): Promise<boolean>;
}

/** The rate limit of one lane through changes of its configuration; all times it takes and gives are wall clock. */
export class LaneRateLimit {
  readonly #destinationId: string;
  readonly #host: LimitsHost;
  #config: DestinationConfig | null = null;
  #limiter: DestinationRateLimiter | null = null;
  /** What the limiters before knew, for the next one. */
  #known: LimitRecord | null;
  /** Something was known here from the start, or was asked for since: before that, a former home may have used more. */
  #hasLearned: boolean;
  /** The longest that a start has counted so far, ms: a limit may come back that was changed for a while. */
  #longestMs = 0;
  #reserving = false;
  readonly #expected = new ExpectedTasks();
  /** Slots (steady) that tasks of the lane have in the plan: the start of none other is planned there. */
  #planned = new WeakMap<DeliveryTask, number>();
  /** Slots were given since the plan was empty. */
  #hasPlan = false;

  constructor(destinationId: string, host: LimitsHost) {
    this.#destinationId = destinationId;
    this.#host = host;
    this.#known = this.#fromLog(host.limits.get(destinationId));
    this.#hasLearned = this.#known !== null;
  }

  /** How long back its state reaches, ms; Infinity while starts may count again. */
  get memoryMs(): number {
    if (this.#earlierStarts(this.#host.steadyNow()).length > 0) return Number.POSITIVE_INFINITY;
    return this.#limiter === null ? 0 : 2 * rateWindowMs(this.#limiter.window);
  }

  /** The latest configuration that the lane has seen. */
  get config(): DestinationConfig | null {
    return this.#config;
  }

  configure(config: DestinationConfig): void {
    if (config === this.#config) return;
    this.#config = config;
    const { rateLimitMax: max, rateLimitWindow: window } = config;
    const current = this.#limiter;
    if (max === (current?.max ?? null) && window === (current?.window ?? null)) return;
    const nowMs = this.#host.steadyNow();
    this.#forgetSlots();
    if (window !== null) this.#longestMs = Math.max(this.#longestMs, tokenReturnMs(window));
    const earlier = this.#earlierStarts(nowMs);
    if (current !== null)
      this.#known = withEarlier(earlier, current.snapshot(this.#destinationId, nowMs));
    if (max === null || window === null) {
      this.#limiter = null;
      return;
    }
    const limit = { max, window, timeoutMs: this.#host.options.deliveryTimeoutMs };
    this.#limiter =
      current?.successor(limit, earlier, nowMs) ??
      new DestinationRateLimiter(limit, this.#known, nowMs);
    if (window === "second" && nowMs - this.#host.assignedSteadyMs < 2_000)
      this.#limiter.useUp(Math.min(nowMs, this.#host.assignedSteadyMs));
  }

  /**
   * When a task may start, wall clock, not before `startAtMs`. A task put off until then is expected back:
   * it keeps its slot. One that an earlier owner put off gets a slot of this one.
   */
  plan(task: DeliveryTask, startAtMs: number, putOffAfterMs: number): number {
    const limiter = this.#limiter;
    if (limiter === null || this.#isIncomplete(limiter)) return startAtMs;
    const keptMs = this.#expected.take(task, this.#host.clock.now());
    this.#hasPlan = true;
    const plannedMs = keptMs ?? limiter.plan(startAtMs - this.#aheadMs);
    const slotMs = keptMs === null ? Math.ceil(plannedMs + this.#aheadMs) : startAtMs;
    if (slotMs > putOffAfterMs) this.#expected.add(slotMs, plannedMs, this.#host.clock.now());
    else this.#planned.set(task, plannedMs);
    return slotMs;
  }

  /** Not due yet, and without a slot that is kept for it. */
  isTooEarly(task: DeliveryTask, nowMs: number): boolean {
    return this.#limiter !== null && task.dueAtMs > nowMs && !this.#expected.has(task);
  }

  /** The task goes on as another: its slot is that one's. */
  goesOnAs(task: DeliveryTask, next: DeliveryTask): void {
    const plannedMs = this.#planned.get(task);
    if (plannedMs !== undefined) this.#planned.set(next, plannedMs);
  }

  /** Slots given now would have to be given again. */
  #isIncomplete(limiter: DestinationRateLimiter): boolean {
    return !this.#hasLearned && limiter.isPersistent && !this.#host.limits.areComplete;
  }

  /**
   * Tasks are held, and nobody knows for how long: their slots would stay empty, and those of others are behind them. All get new ones
   * when they come back.
   */
  onHeld(): void {
    if (!this.#hasPlan) return;
    this.#forgetSlots();
    this.#limiter?.dropPlan(this.#host.steadyNow());
  }

  #forgetSlots(): void {
    this.#expected.clear();
    this.#planned = new WeakMap();
    this.#hasPlan = false;
  }

  /**
   * Times, at least `waitMs` ahead, for tasks that missed their slots. Each that still has one in the plan takes the place of a start:
   * with a new slot, after all that wait, nobody would come for it.
   */
  *planAgain(
    missed: readonly { readonly task: DeliveryTask }[],
    waitMs: number,
  ): Iterable<[task: DeliveryTask, slotMs: number]> {
    const limiter = this.#limiter;
    const nowMs = this.#host.steadyNow();
    this.#hasPlan = true;
    const startsMs = limiter?.nextStarts(nowMs + waitMs, nowMs, missed.length) ?? [];
    for (const [index, { task }] of missed.entries()) {
      const keptMs = this.#plannedOf(task);
      const plannedMs = keptMs ?? limiter?.plan(nowMs + waitMs) ?? nowMs + waitMs;
      const startMs = keptMs === null ? plannedMs : (startsMs[index] ?? plannedMs);
      const slotMs = Math.ceil(startMs + this.#aheadMs);
      this.#expected.add(slotMs, plannedMs, this.#host.clock.now());
      yield [task, slotMs];
    }
  }

  /** A task is put off until then for another reason: it keeps its slot, which none other comes for. */
  keep(task: DeliveryTask, dueAtMs: number): void {
    const keptMs = this.#plannedOf(task);
    if (keptMs !== null) this.#expected.add(dueAtMs, keptMs, this.#host.clock.now());
  }

  /** How long the next start has to wait, in ms; 0: start now. `retry` is called when a reservation is through. */
  waitMs(retry: () => void): number {
    const limiter = this.#limiter;
    if (limiter === null) return NO_WAIT_MS;
    if (this.#reserving) return RESERVING_WAIT_MS;
    const nowMs = this.#host.steadyNow();
    const decision = limiter.admit(nowMs);
    switch (decision.kind) {
      case "go":
        return NO_WAIT_MS;
      case "wait":
        return Math.max(1, decision.untilMs - nowMs);
      case "reserve":
        void this.#reserve(limiter, retry);
        return RESERVING_WAIT_MS;
      default:
        return decision satisfies never;
    }
  }

  /** A try starts now; the result wants to know when its request goes out, and when its answer is here. */
  start(): UsedToken {
    const limiter = this.#limiter;
    if (limiter === null) return UNLIMITED;
    const started = limiter.start(this.#host.steadyNow());
    return {
      onSent: () => limiter.send(started, this.#host.steadyNow()),
      onAnswered: () => limiter.finish(started, this.#host.steadyNow()),
    };
  }

  hasRoom(): boolean {
    const limiter = this.#limiter;
    if (limiter === null) return true;
    return limiter.nextSlotMs(this.#host.steadyNow()) <= this.#host.steadyNow() + ROOM_MS;
  }

  /**
   * What to write when ownership has ended in order and nothing is in flight any more: the exact state lets the next owner
   * use what a block would have kept back. Null where nothing is kept.
   */
  last(): LastLimit | null {
    if (this.#limiter?.isPersistent !== true || this.#config === null) return null;
    const record = this.#limiter.snapshot(this.#destinationId, this.#host.steadyNow());
    return { record: this.#forLog(record), endpointId: this.#config.endpointId };
  }

  /** Starts that the limit of now does not count, and one that comes back would. */
  #earlierStarts(nowMs: number): Starts[] {
    if (this.#known === null) return [];
    return startsOf(this.#known).filter(
      ([timeMs]) =>
        timeMs + this.#longestMs > nowMs && this.#limiter?.isCounted(timeMs, nowMs) !== true,
    );
  }

  /** By the wall clock, all that a next owner shares with this one: the steady clock stays behind where the wall clock was set. */
  #forLog(record: LimitRecord): LimitRecord {
    const whole = withEarlier(this.#earlierStarts(this.#host.steadyNow()), record);
    return shiftLimit(whole, this.#wallAheadMs());
  }

  #fromLog(record: LimitRecord | null): LimitRecord | null {
    return record === null ? null : shiftLimit(record, -this.#wallAheadMs());
  }

  /** In whole seconds, so that starts which two records know of stay equal. */
  #wallAheadMs(): number {
    return Math.round((this.#host.clock.now() - this.#host.steadyNow()) / 1_000) * 1_000;
  }

  /** How far the wall clock is ahead of the steady one. */
  get #aheadMs(): number {
    return this.#host.clock.now() - this.#host.steadyNow();
  }

  /** The slot of a task that comes back or is in the lane; null when the plan counts it no more. */
  #plannedOf(task: DeliveryTask): number | null {
    const plannedMs = this.#planned.get(task) ?? this.#expected.take(task, this.#host.clock.now());
    if (plannedMs === null || this.#limiter === null) return null;
    return this.#limiter.isCounted(plannedMs, this.#host.steadyNow()) ? plannedMs : null;
  }

  /**
   * Nothing is known of a destination: it is new here. What it used elsewhere counts from the first token on, under whichever limit it
   * has by then.
   */
  async #learnLate(): Promise<void> {
    const late = this.#fromLog(await this.#host.limits.late(this.#destinationId));
    this.#hasLearned = true;
    if (late === null) return;
    this.#known = this.#known === null ? late : withEarlier(startsOf(late), this.#known);
    this.#limiter?.learn(late, this.#host.steadyNow());
  }

  async #reserve(limiter: DestinationRateLimiter, retry: () => void): Promise<void> {
    this.#reserving = true;
    if (!this.#hasLearned) await this.#learnLate();
    if (limiter !== this.#limiter) {
      // Its limit was changed meanwhile: the next one makes its own reservation.
      this.#reserving = false;
      retry();
      return;
    }
    const nowMs = this.#host.steadyNow();
    const { record, grant } = limiter.nextBlock(this.#destinationId, nowMs);
    const endpointId = this.#config?.endpointId ?? "";
    const durable = await this.#host.writeLimit(this.#forLog(record), endpointId);
    this.#reserving = false;
    // When it is not, the lane's own timer comes back.
    if (!durable) return;
    limiter.grant(grant);
    retry();
  }
}

function withEarlier(earlier: readonly Starts[], record: LimitRecord): LimitRecord {
  return { ...record, starts: [...earlier, ...record.starts] };
}
