import { RATE_LIMIT_WINDOWS } from "../../../domain/enums.ts";
import type { RateLimitWindow } from "../../../domain/enums.ts";
import { rateWindowMs, tokenReturnMs } from "../../../domain/rate-limit.ts";

/**
 * Until when starts that were made under limits of each window may count, in ms of any one clock: a limit that was changed may be
 * restored, by a later owner too.
 */
export type CountedUntil = Readonly<Partial<Record<RateLimitWindow, number>>>;

/** Returns until when what starts by `nowMs`, or soon after, may count: it is seen a tenth of the window later at most. */
export function countedUntil(window: RateLimitWindow, nowMs: number): CountedUntil {
  return { [window]: nowMs + 2 * rateWindowMs(window) };
}

/** Returns the later time for each window. */
export function laterOf(one: CountedUntil, other: CountedUntil): CountedUntil {
  return mapTimes({ ...one, ...other }, (untilMs, window) => Math.max(untilMs, one[window] ?? 0));
}

/** Converts the times to a clock that is `aheadMs` ahead of theirs. */
export function shiftTimes(times: CountedUntil, aheadMs: number): CountedUntil {
  return mapTimes(times, (untilMs) => untilMs + aheadMs);
}

/** Returns how long after its time any start may count, in ms; 0 if none counts any more. */
export function longestCountMs(times: CountedUntil, nowMs: number): number {
  const counting = RATE_LIMIT_WINDOWS.filter((window) => (times[window] ?? 0) > nowMs);
  return Math.max(0, ...counting.map(tokenReturnMs));
}

function mapTimes(
  times: CountedUntil,
  change: (untilMs: number, window: RateLimitWindow) => number,
): CountedUntil {
  const changed: Partial<Record<RateLimitWindow, number>> = {};
  for (const window of RATE_LIMIT_WINDOWS) {
    const untilMs = times[window];
    if (untilMs !== undefined) changed[window] = change(untilMs, window);
  }
  return changed;
}
