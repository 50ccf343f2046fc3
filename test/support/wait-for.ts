import { setTimeout as delay } from "node:timers/promises";

/** Polls until the answer is not undefined, false or null. @throws when the deadline passes, naming what was awaited */
export async function waitFor<T>(
  what: string,
  ask: () => T | Promise<T>,
  timeoutMs = 30_000,
  everyMs = 25,
): Promise<NonNullable<T>> {
  const deadline = Date.now() + timeoutMs;
  for (;;) {
    const answer = await ask();
    if (answer !== undefined && answer !== null && answer !== false) return answer;
    if (Date.now() > deadline) throw new Error(`waited ${timeoutMs} ms in vain for: ${what}`);
    await delay(everyMs);
  }
}

/** Waits until a condition holds. @throws when the deadline passes, naming what was awaited */
export async function until(
  condition: () => boolean | Promise<boolean>,
  what = String(condition),
  deadlineMs = 15_000,
): Promise<void> {
  await waitFor(what, condition, deadlineMs, 5);
}

/**
 * Waits until a condition has held, each time it was asked, for this long. A busy machine may hold up a server for longer than requests
 * wait: the time then begins anew. What may never be so is for `ask` to throw. @throws when the deadline passes
 */
export async function untilHeld(
  what: string,
  ask: () => Promise<boolean>,
  forMs: number,
  timeoutMs: number,
  everyMs = 100,
): Promise<void> {
  let sinceMs = performance.now();
  await waitFor(
    `${what}, for ${forMs} ms`,
    async () => {
      if (!(await ask())) sinceMs = performance.now();
      return performance.now() - sinceMs >= forMs;
    },
    timeoutMs,
    everyMs,
  );
}
