import { TIMERS } from "./clock.ts";

/**
 * What the work comes to; where that takes longer than `ms`, what `late` returns or throws. The work goes on then, and what
 * becomes of it is nobody's any more. What may run under simulated time gives its own clock.
 */
export async function within<T, L>(
  work: Promise<T>,
  ms: number,
  late: () => L,
  clock = TIMERS,
): Promise<T | L> {
  let cancel = (): void => {};
  const expiry = new Promise<"late">((resolve) => {
    cancel = clock.schedule(ms, () => resolve("late"));
  });
  const outcome = await Promise.race([work.then((value) => ({ value })), expiry]).finally(cancel);
  return outcome === "late" ? late() : outcome.value;
}
