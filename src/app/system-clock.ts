import { performance } from "node:perf_hooks";
import { TIMERS, type Clock } from "../domain/clock.ts";

export function makeSystemClock(): Clock {
  return {
    ...TIMERS,
    now: () => Date.now(),
    monotonic: () => performance.now(),
  };
}
