import type { StoreFilter } from "../../domain/event-store.ts";

type AskedTime = Pick<StoreFilter, "fromMs" | "toMs">;

/** Returns the end of the time asked for, in ms since the epoch; nothing was received after `nowMs`. */
export function endOfAsked({ toMs = Infinity }: AskedTime, nowMs: number): number {
  return Math.min(toMs, nowMs);
}

/** Returns the ms from the first moment asked for, or the epoch, to the last. */
export function lengthOfAsked(asked: AskedTime, nowMs: number): number {
  return endOfAsked(asked, nowMs) - (asked.fromMs ?? 0);
}
