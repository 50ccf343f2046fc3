import type { Clock } from "../../../domain/clock.ts";

/** The two clocks of a lane: tasks are due by the wall clock, a rate limit's plan is in steady time. */
export interface Clocks {
  readonly clock: Pick<Clock, "now">;
  steadyNow(): number;
}

/** Returns how far the wall clock is ahead of the steady one, ms. */
export function wallAheadMs(clocks: Clocks): number {
  return clocks.clock.now() - clocks.steadyNow();
}
