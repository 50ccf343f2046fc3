import type { Clock } from "../../../domain/clock.ts";

/** A timer this late means that the process stood still: it was frozen, or had no CPU. */
const STOOD_STILL_MS = 1_000;
/** Long enough to read the answers that came meanwhile. */
const AGAIN_MS = 2_000;

/**
 * Schedules as `clock.schedule` does, but waits two seconds more, once, if the process stood still: answers that came
 * meanwhile are read only after its timers, and time in which they could not be read does not count against the receiver.
 */
export function scheduleAwake(clock: Clock, delayMs: number, callback: () => void): () => void {
  const dueMs = clock.monotonic() + delayMs;
  let cancel = clock.schedule(delayMs, () => {
    if (clock.monotonic() - dueMs < STOOD_STILL_MS) callback();
    else cancel = clock.schedule(AGAIN_MS, callback);
  });
  return () => cancel();
}
