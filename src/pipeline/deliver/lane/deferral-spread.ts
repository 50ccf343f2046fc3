import type { CircuitState } from "./circuit-breaker.ts";

const LOWEST_RATE = 10;
const HIGHEST_RATE = 5_000;
/**
 * A backlog is spread over at most this long, so that a receiver that recovers is not kept waiting. Tasks that are put off
 * again take a new slot each time, so without a bound slots could move ahead faster than time.
 */
const MAX_SPREAD_MS = 2 * 60_000;
/** Tasks that came while a circuit was open come back within this time after its pause. */
const AFTER_PROBE_MS = 20_000;

/**
 * Gives each task that a lane puts off a slot of its own at the pace the lane is thought to reach, so that a backlog does not
 * come back all at once, only to be put off again.
 */
export class DeferralSpread {
  #slotMs = 0;

  /** Returns the next slot, not before `earliestMs`, at `perSecond` tasks a second; this one takes the room of `roomOf` tasks. */
  next(earliestMs: number, perSecond: number, roomOf = 1): number {
    const rate = Math.max(LOWEST_RATE, Math.min(HIGHEST_RATE, perSecond));
    const slotMs = this.#slotMs < earliestMs ? earliestMs : this.#slotMs + (1000 * roomOf) / rate;
    this.#slotMs = slotMs > earliestMs + MAX_SPREAD_MS ? earliestMs : slotMs;
    return Math.round(this.#slotMs);
  }
}

/**
 * Returns how long a task that came while the circuit was open should wait, in ms: such tasks come back in the order they
 * came, not all at once, since they may be put off again.
 */
export function waitUntilProbed(
  { sinceMs, untilMs }: Extract<CircuitState, { kind: "open" }>,
  nowMs: number,
): number {
  const share = Math.min(1, AFTER_PROBE_MS / (untilMs - sinceMs));
  return untilMs - nowMs + (nowMs - sinceMs) * share;
}
