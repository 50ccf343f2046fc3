import { DELAY_TIERS } from "../../../domain/delay-tier.ts";
import type { DestinationConfig } from "../../../domain/destination.ts";
import type { DeliveryTask } from "../../../domain/delivery-task.ts";
import type { CircuitState } from "./circuit-breaker.ts";
import { DEADLINE_PASSED } from "../try/dead-reasons.ts";
import { DeferralSpread, waitUntilProbed } from "./deferral-spread.ts";
import { MAX_WAIT_MS } from "./lane-health.ts";
import type { LaneHealth } from "./lane-health.ts";
import type { LaneHost } from "./lane-host.ts";
import { maxInFlight } from "./lane-places.ts";
import type { LaneRateLimit } from "./lane-rate-limit.ts";
import { CONFIG_RETRY_MS } from "../config-retry.ts";
import { deadlineOf } from "./run-deadline.ts";
import type { GateLane } from "../bounds/send-gate.ts";

/** The shortest wait for the limit that is recorded: anything less is the grain of the clock or of the window. */
const MIN_LIMITED_MS = 10;
/**
 * The pace assumed for a receiver once a probe has found it well: at the pace it failed with, its backlog would take minutes.
 * If it is slower, its lane notices at once; if it is not well, its circuit keeps everything away.
 */
const WELL_PER_SECOND = 500;
/** How long a task waits for room, at most, in terms of how long all tries of its lane have been in vain. */
const WAIT_PER_IN_VAIN = 3;
/** How long it may take until the record of a task that is to wait for the time of one tier is made: later, it would go through several. */
const RECORDED_WITHIN_MS = 250;

/** The way out for tasks that a lane cannot take: each gets a slot of its own at the lane's pace, or is ended. */
export class LaneDeferrals {
  readonly #lane: Pick<GateLane, "inFlight">;
  readonly #host: LaneHost;
  readonly #health: LaneHealth;
  readonly #rateLimit: LaneRateLimit;
  readonly #spread = new DeferralSpread();

  constructor(
    lane: Pick<GateLane, "inFlight">,
    host: LaneHost,
    health: LaneHealth,
    rateLimit: LaneRateLimit,
  ) {
    this.#lane = lane;
    this.#host = host;
    this.#health = health;
    this.#rateLimit = rateLimit;
  }

  /** Puts the task off until its lane may have room: `#roomWaitMs`. */
  putOffForRoom(task: DeliveryTask, config: DestinationConfig): void {
    const waitMs = Math.max(MAX_WAIT_MS, this.#roomWaitMs(config.receiverUrl));
    this.#host.putOff(task, config, "lane_full", this.#nextSlot(task, waitMs));
  }

  /**
   * Returns the task that waits in the lane in place of `task`, for the limit, until `startAtMs`. The deferral is recorded
   * once, like any other by the limit, but only its row is written: from it, the next owner makes the task that would have
   * waited in a delay tier.
   */
  waitForLimit(task: DeliveryTask, config: DestinationConfig, startAtMs: number): DeliveryTask {
    const freeAtMs = Math.max(this.#host.clock.now(), task.dueAtMs);
    if (task.limitedBy !== null || startAtMs - freeAtMs < MIN_LIMITED_MS) return task;
    const waiting = this.#host.recordLimited(task, config, startAtMs);
    this.#rateLimit.goesOnAs(task, waiting);
    return waiting;
  }

  putOffForConfig(task: DeliveryTask): void {
    this.#host.putOff(task, null, "config_unavailable", this.#nextSlot(task, CONFIG_RETRY_MS));
  }

  /** Puts the task off or, past its schedule, ends it. */
  putOffForCircuit(task: DeliveryTask, config: DestinationConfig, circuit: CircuitState): void {
    const nowMs = this.#host.clock.now();
    const steadyMs = this.#host.steadyNow();
    const sinceMs = nowMs - this.#health.failingForMs(steadyMs);
    const failing = { sinceMs, retryAfterMs: this.#health.retryAfterMs };
    if (nowMs >= deadlineOf(task, config, this.#host.options, failing)) {
      this.#host.endDead(task, config, DEADLINE_PASSED);
      return;
    }
    const waitMs =
      circuit.kind === "open" ? waitUntilProbed(circuit, steadyMs) : this.#probingMs(circuit);
    const dueAtMs = this.#nextSlot(task, Math.max(MAX_WAIT_MS, waitMs), WELL_PER_SECOND);
    this.#host.putOff(task, config, "circuit_open", dueAtMs);
  }

  /**
   * Returns how long to wait for room, in ms.
   *
   * Where a receiver may hang, up to three times as long as all has been in vain, or the longest pause of a circuit: what waits at many
   * such receivers would otherwise come back every few seconds, and cost the process more than all that it delivers. It is the time
   * of one delay tier, since any other takes the task through several.
   *
   * Where a lane lacks only places that others have, as long as nothing has moved in it, if they have those at the same receiver, up
   * to the first pause of a circuit: that one may be well, and idle by then. And where the latest try succeeded it may just be slow.
   */
  #roomWaitMs(receiverUrl: string): number {
    const { openMs, maxOpenMs } = this.#host.options.breaker;
    const steadyMs = this.#host.steadyNow();
    if (this.#lane.inFlight > 0 && !this.#health.proven) {
      const maxMs = Math.min(WAIT_PER_IN_VAIN * this.#health.inVainForMs(steadyMs), maxOpenMs);
      const tier = DELAY_TIERS.findLast(({ delayMs }) => delayMs <= maxMs);
      return tier === undefined ? 0 : tier.delayMs + RECORDED_WITHIN_MS;
    }
    const isFull = this.#host.gate.isFull(receiverUrl);
    return isFull ? Math.min(this.#health.stillForMs(steadyMs), openMs) : 0;
  }

  /**
   * Returns how long the probe has taken so far: it may hang, and a task that came back every two seconds would be put off
   * each time.
   */
  #probingMs(circuit: CircuitState): number {
    const isProbing = circuit.kind === "half_open" && circuit.probing;
    return isProbing ? this.#health.stillForMs(this.#host.steadyNow()) : 0;
  }

  #nextSlot(task: DeliveryTask, minWaitMs: number, minPerSecond = 0): number {
    const earliestMs = this.#host.clock.now() + minWaitMs;
    const hoped = this.#health.hopedPerSecond(this.#host.steadyNow());
    const perSecond = Math.max(hoped, minPerSecond);
    // Fewer large bodies may be in flight than the lane's concurrency allows: they come back that much further apart.
    const places = maxInFlight(task.event.body, this.#host.options);
    const roomOf = Math.max(1, this.#health.hopedConcurrency / places);
    const slotMs = this.#spread.next(earliestMs, perSecond, roomOf);
    this.#rateLimit.keep(task, slotMs);
    this.#health.onPutOff(this.#host.steadyNow() + slotMs - this.#host.clock.now());
    return slotMs;
  }
}
