import type { CircuitState } from "./circuit-breaker.ts";

const LOWEST_RATE = 10;
const HIGHEST_RATE = 5_000;
/**
 * A backlog is spread over at most this long, so that a receiver that recovers is not kept waiting. Tasks that are put off
 * again take a new slot each time, so without a bound slots could move ahead faster than time.
 */
const LONGEST_SPREAD_MS = 2 * 60_000;
/** What came while a circuit was open comes back within so long. */
const AFTER_PROBE_MS = 20_000;

/**
 * Gives each task that a lane puts off a slot of its own at the pace the lane is thought to reach,
 * so that a backlog does not come back all at once and be put off again.
 */
export class DeferralSpread {
  #slotMs = 0;

  /** The next slot, not before `earliestMs`, at `perSecond` tasks a second, of which this one takes the room of so many. */
  next(earliestMs: number, perSecond: number, roomOf = 1): number {
    const rate = Math.max(LOWEST_RATE, Math.min(HIGHEST_RATE, perSecond));
    const slotMs = this.#slotMs < earliestMs ? earliestMs : this.#slotMs + (1000 * roomOf) / rate;
    this.#slotMs = slotMs > earliestMs + LONGEST_SPREAD_MS ? earliestMs : slotMs;
    return Math.round(this.#slotMs);
  }
}

/** What came while a circuit was open comes back in the order in which it came, not all at once: it may be put off again. */
export function waitUntilProbed(
  { sinceMs, untilMs }: Extract<CircuitState, { kind: "open" }>,
  nowMs: number,
): number {
  const share = Math.min(1, AFTER_PROBE_MS / (untilMs - sinceMs));
  return untilMs - nowMs + (nowMs - sinceMs) * share;
}
