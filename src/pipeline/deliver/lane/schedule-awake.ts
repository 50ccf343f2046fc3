import type { Clock } from "../../../domain/clock.ts";

/** A timer so late says that the process stood still: it was frozen, or had no CPU. */
const STOOD_STILL_MS = 1_000;
/** Enough to read the answers that came meanwhile. */
const AGAIN_MS = 2_000;

/**
 * As `clock.schedule`, but where the process stood still it waits two seconds more, once: answers that came meanwhile are read
 * only after its timers, and time in which they could not be is no time that anybody made it wait.
 */
export function scheduleAwake(clock: Clock, delayMs: number, callback: () => void): () => void {
  const dueMs = clock.monotonic() + delayMs;
  let cancel = clock.schedule(delayMs, () => {
    if (clock.monotonic() - dueMs < STOOD_STILL_MS) callback();
    else cancel = clock.schedule(AGAIN_MS, callback);
  });
  return () => cancel();
}
