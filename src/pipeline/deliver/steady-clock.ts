import type { Clock } from "../../domain/clock.ts";

const SLEW = 0.0001;

/**
 * Makes a clock in wall-clock ms that never goes back and never jumps: it advances with the monotonic clock and closes in on
 * the wall clock by 0.01 % of the time that has passed. Rate-limit windows are measured by it.
 */
export function makeSteadyClock(clock: Clock): () => number {
  let lastMonotonicMs = clock.monotonic();
  let steadyMs = clock.now();
  return () => {
    const monotonicMs = clock.monotonic();
    const passedMs = monotonicMs - lastMonotonicMs;
    lastMonotonicMs = monotonicMs;
    const errorMs = clock.now() - (steadyMs + passedMs);
    const bound = passedMs * SLEW;
    steadyMs += passedMs + Math.max(-bound, Math.min(bound, errorMs));
    return steadyMs;
  };
}
