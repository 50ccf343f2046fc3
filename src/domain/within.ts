import type { Clock } from "./clock.ts";

/**
 * What the work comes to; where that takes longer than `ms`, what `late` returns or throws. The work goes on then; its
 * result, or its error, is ignored.
 */
export async function within<T, L>(
  work: Promise<T>,
  ms: number,
  late: () => L,
  clock: Pick<Clock, "schedule">,
): Promise<T | L> {
  let cancel = (): void => {};
  const expiry = new Promise<"late">((resolve) => {
    cancel = clock.schedule(ms, () => resolve("late"));
  });
  const outcome = await Promise.race([work.then((value) => ({ value })), expiry]).finally(cancel);
  return outcome === "late" ? late() : outcome.value;
}
