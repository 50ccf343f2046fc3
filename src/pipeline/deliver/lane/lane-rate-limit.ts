import type { DeliveryTask } from "../../../domain/delivery-task.ts";
import type { DestinationConfig } from "../../../domain/destination.ts";
import { rateWindowMs } from "../../../domain/rate-limit.ts";
import type { Starts } from "../../../domain/rate-limit.ts";
import { countedUntil, longestCountMs } from "../limits/counted-until.ts";
import { shiftLimit, startsOf, withEarlier } from "../limits/limits-codec.ts";
import type { LastLimit, LimitRecord } from "../limits/limits-codec.ts";
import { DestinationRateLimiter } from "../limits/destination-rate-limiter.ts";
import { LaneSlots } from "./lane-slots.ts";
import type { LimitsHost } from "./limits-host.ts";
import { wallAheadMs } from "./wall-ahead.ts";

/** How long to wait for a block to be written before looking again. */
const RESERVING_WAIT_MS = 1_000;
const ROOM_MS = 1_000;
/** A log that takes longer is down, and nothing may hold up its partition until it is back. */
const MAX_WRITING_MS = 10_000;

/** One try under the limit. */
export interface UsedToken {
  readonly onSent: () => void;
  readonly onAnswered: () => void;
}

const NO_TOKEN: UsedToken = { onSent: () => undefined, onAnswered: () => undefined };

/** The rate limit of one lane across changes of its configuration; all times it takes and gives are wall clock. */
export class LaneRateLimit {
  readonly #destinationId: string;
  readonly #host: LimitsHost;
  #config: DestinationConfig | null = null;
  #limiter: DestinationRateLimiter | null = null;
  /** What earlier limiters knew, for the next one. */
  #known: LimitRecord | null;
  /** Since when that is known, steady, ms: a start of a later time was in flight by then, and limiters count it sooner. */
  #knownAtMs: number;
  /** Whether something was known here from the start or has been looked up since: before that, a former home may have used more. */
  #hasLearned: boolean;
  #reserving = false;
  /** Steady, ms; null while no block is being written. */
  #writingSinceMs: number | null = null;
  #lastWriteMs = 0;
  readonly #slots: LaneSlots;

  constructor(destinationId: string, host: LimitsHost) {
    this.#destinationId = destinationId;
    this.#host = host;
    this.#slots = new LaneSlots(host);
    this.#known = this.#fromLog(host.limits.get(destinationId));
    this.#knownAtMs = host.steadyNow();
    this.#hasLearned = this.#known !== null;
  }

  /** How far back its state reaches, ms; Infinity while there are starts that may count again. */
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
    this.#slots.forget();
    const earlier = this.#earlierStarts(nowMs);
    if (current !== null) {
      this.#known = this.#withEarlier(earlier, current.snapshot(this.#destinationId, nowMs));
      this.#knownAtMs = nowMs;
    }
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
   * Returns when a task may start, wall clock, not before `startAtMs`. A start after `putOffAfterMs` means that the task is
   * put off until then: it is expected back and keeps its slot. A task that an earlier owner put off gets a new slot.
   */
  plan(task: DeliveryTask, startAtMs: number, putOffAfterMs: number): number {
    const limiter = this.#limiter;
    if (limiter === null || this.#isIncomplete(limiter)) return startAtMs;
    if (this.#slots.wasClockSet()) this.#dropPlan();
    const keptMs = this.#slots.take(task);
    const plannedMs = keptMs ?? limiter.plan(startAtMs - wallAheadMs(this.#host));
    const slotMs = keptMs === null ? Math.ceil(plannedMs + wallAheadMs(this.#host)) : startAtMs;
    if (slotMs > putOffAfterMs) this.#slots.putOff(slotMs, plannedMs);
    else this.#slots.enter(task, plannedMs);
    return slotMs;
  }

  /** Returns whether the task is not due yet and has no slot kept for it. */
  isTooEarly(task: DeliveryTask, nowMs: number): boolean {
    return this.#limiter !== null && task.dueAtMs > nowMs && !this.#slots.has(task);
  }

  /** Passes the slot of the task on to the one that replaces it. */
  goesOnAs(task: DeliveryTask, next: DeliveryTask): void {
    this.#slots.passOn(task, next);
  }

  /** Returns whether starts at a former home may still become known: slots given out now would have to be given out again. */
  #isIncomplete(limiter: DestinationRateLimiter): boolean {
    return !this.#hasLearned && limiter.isPersistent && !this.#host.limits.areComplete;
  }

  /** Makes room in the plan when tasks are held: nobody knows for how long. */
  onHeld(): void {
    this.#dropPlan();
  }

  /**
   * Drops all slots when tasks do not come back in time for them, as when they are held, or the wall clock is set: the slots would
   * stay empty, and those of others are behind them. All tasks get new slots when they come back.
   */
  #dropPlan(): void {
    if (this.#slots.isEmpty) return;
    this.#slots.forget();
    this.#limiter?.dropPlan(this.#host.steadyNow());
  }

  /**
   * Yields times, at least `waitMs` ahead, for tasks that missed their slots. A task whose slot is still in the plan gets one
   * of the next possible starts: given a new slot, behind all that wait, it would leave that start unused.
   */
  *planAgain(
    missed: readonly { readonly task: DeliveryTask }[],
    waitMs: number,
  ): Iterable<[task: DeliveryTask, slotMs: number]> {
    const limiter = this.#limiter;
    const nowMs = this.#host.steadyNow();
    if (this.#slots.wasClockSet()) this.#dropPlan();
    const startsMs = limiter?.nextStarts(nowMs + waitMs, nowMs, missed.length) ?? [];
    for (const [index, { task }] of missed.entries()) {
      const keptMs = this.#plannedOf(task);
      const plannedMs = keptMs ?? limiter?.plan(nowMs + waitMs) ?? nowMs + waitMs;
      const startMs = keptMs === null ? plannedMs : (startsMs[index] ?? plannedMs);
      const slotMs = Math.ceil(startMs + wallAheadMs(this.#host));
      this.#slots.putOff(slotMs, plannedMs);
      yield [task, slotMs];
    }
  }

  /** Keeps the slot of a task that is put off until `dueAtMs` for another reason: no other task comes for it. */
  keep(task: DeliveryTask, dueAtMs: number): void {
    const keptMs = this.#plannedOf(task);
    if (keptMs !== null) this.#slots.putOff(dueAtMs, keptMs);
  }

  /** Returns how long the next start has to wait, in ms; 0: start now. `retry` is called when a reservation is done. */
  waitMs(retry: () => void): number {
    const limiter = this.#limiter;
    if (limiter === null) return 0;
    if (this.#reserving) return RESERVING_WAIT_MS;
    const nowMs = this.#host.steadyNow();
    const decision = limiter.admit(nowMs);
    switch (decision.kind) {
      case "go":
        return 0;
      case "wait":
        return Math.max(1, decision.untilMs - nowMs);
      case "reserve":
        void this.#reserve(limiter, retry);
        return RESERVING_WAIT_MS;
      default:
        return decision satisfies never;
    }
  }

  /** Counts a try that starts now; the result has to be told when its request goes out and when its answer is here. */
  start(): UsedToken {
    const limiter = this.#limiter;
    if (limiter === null) return NO_TOKEN;
    const started = limiter.start(this.#host.steadyNow());
    return {
      onSent: () => limiter.send(started, this.#host.steadyNow()),
      onAnswered: () => limiter.finish(started, this.#host.steadyNow()),
    };
  }

  /** Returns how long a block for those that wait has been on its way to the log, ms: put off, they would find it over. */
  get writingForMs(): number {
    const sinceMs = this.#writingSinceMs ?? Number.POSITIVE_INFINITY;
    return Math.max(0, Math.min(this.#host.steadyNow() - sinceMs, MAX_WRITING_MS));
  }

  hasRoom(): boolean {
    const limiter = this.#limiter;
    if (limiter === null) return true;
    return limiter.nextSlotMs(this.#host.steadyNow()) <= this.#host.steadyNow() + ROOM_MS;
  }

  /**
   * Returns what to write when ownership has ended in good order and nothing is in flight: the exact state lets the next owner
   * use what a block would have kept back. Null if nothing is kept.
   */
  last(): LastLimit | null {
    if (this.#limiter?.isPersistent !== true || this.#config === null) return null;
    const record = this.#limiter.snapshot(this.#destinationId, this.#host.steadyNow());
    return { record: this.#forLog(record), endpointId: this.#config.endpointId };
  }

  /** Returns the starts that the current limit does not count but a restored one would. */
  #earlierStarts(nowMs: number): Starts[] {
    if (this.#known === null) return [];
    const longestMs = longestCountMs(this.#known.countedUntil ?? {}, nowMs);
    return startsOf(this.#known).filter(
      ([timeMs]) =>
        timeMs + longestMs > nowMs &&
        this.#limiter?.isCounted(Math.min(timeMs, this.#knownAtMs), nowMs) !== true,
    );
  }

  #withEarlier(starts: readonly Starts[], record: LimitRecord): LimitRecord {
    return this.#known === null ? record : withEarlier({ ...this.#known, starts }, record);
  }

  /** Converts to the wall clock, the only one that the next owner shares: the steady clock lags after the wall clock was set. */
  #forLog(record: LimitRecord): LimitRecord {
    const whole = this.#withEarlier(this.#earlierStarts(this.#host.steadyNow()), record);
    return shiftLimit(whole, this.#wallAheadRoundedMs);
  }

  #fromLog(record: LimitRecord | null): LimitRecord | null {
    if (record === null) return null;
    // What an older version wrote counts as if under the longest window.
    const unknown = countedUntil("day", this.#host.clock.now());
    return shiftLimit({ countedUntil: unknown, ...record }, -this.#wallAheadRoundedMs);
  }

  /** How far the wall clock is ahead, rounded to whole seconds: a start that is in two records stays equal. */
  get #wallAheadRoundedMs(): number {
    return Math.round(wallAheadMs(this.#host) / 1_000) * 1_000;
  }

  /** Returns the slot of a task that comes back or is in the lane; null if the plan no longer counts it. */
  #plannedOf(task: DeliveryTask): number | null {
    const plannedMs = this.#slots.find(task);
    if (plannedMs === null || this.#limiter === null) return null;
    return this.#limiter.isCounted(plannedMs, this.#host.steadyNow()) ? plannedMs : null;
  }

  /**
   * Learns what a destination that is new here has used elsewhere: it counts from the first token on, under whichever limit
   * applies by then.
   */
  async #learnLate(): Promise<void> {
    const late = this.#fromLog(await this.#host.limits.late(this.#destinationId));
    this.#hasLearned = true;
    if (late === null) return;
    const earlier = { ...late, starts: startsOf(late) };
    this.#known = this.#known === null ? late : withEarlier(earlier, this.#known);
    this.#limiter?.learn(late, this.#host.steadyNow());
  }

  async #reserve(limiter: DestinationRateLimiter, retry: () => void): Promise<void> {
    this.#reserving = true;
    if (!this.#hasLearned) await this.#learnLate();
    if (limiter !== this.#limiter) {
      // The limit was changed meanwhile: the new limiter makes its own reservation.
      this.#reserving = false;
      return retry();
    }
    const nowMs = this.#host.steadyNow();
    const { record, grant } = limiter.nextBlock(this.#destinationId, nowMs, this.#lastWriteMs);
    const endpointId = this.#config?.endpointId ?? "";
    this.#writingSinceMs = nowMs;
    const durable = await this.#host.writeLimit(this.#forLog(record), endpointId);
    this.#lastWriteMs = this.writingForMs;
    this.#writingSinceMs = null;
    this.#reserving = false;
    if (!durable) return; // The lane's own timer tries again.
    limiter.grant(grant);
    retry();
  }
}
