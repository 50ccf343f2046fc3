import type { Clock } from "./clock.ts";

/** Returns what the work comes to, or after `ms` what `late` returns or throws. Late work goes on; its result or error is ignored. */
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
