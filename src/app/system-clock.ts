import { performance } from "node:perf_hooks";
import type { Clock } from "../domain/clock.ts";

/** The real clock. Its timers keep the process alive: whoever schedules cancels when it stops. */
export function makeSystemClock(): Clock {
  return {
    now: () => Date.now(),
    monotonic: () => performance.now(),
    schedule: (delayMs, callback) => {
      const timer = setTimeout(callback, delayMs);
      return () => clearTimeout(timer);
    },
  };
}
