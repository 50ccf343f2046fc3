import { setTimeout as sleep } from "node:timers/promises";

/** Waits for a condition, not for a time: fails with `what` after the deadline. */
export async function until(
  condition: () => boolean | Promise<boolean>,
  what: string,
  deadlineMs = 10_000,
): Promise<void> {
  const endMs = performance.now() + deadlineMs;
  while (!(await condition())) {
    if (performance.now() > endMs) throw new Error(`not within ${deadlineMs} ms: ${what}`);
    await sleep(2);
  }
}
