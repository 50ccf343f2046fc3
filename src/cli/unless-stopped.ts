import { setTimeout as delay } from "node:timers/promises";
import { RelayError } from "../domain/errors.ts";
import type { CommandIo } from "./io.ts";

/** A store that is well has answered by then. */
const GRACE_MS = 5_000;

/**
 * The work of a command that ends by itself. Told to stop, it goes on to its end: but for a store that hangs, which is not waited for.
 * @throws {RelayError} when it is not done a few seconds after it was told to stop
 */
export async function unlessStopped(
  { signal }: Pick<CommandIo, "signal">,
  work: Promise<void>,
): Promise<void> {
  const done = new AbortController();
  try {
    await Promise.race([work, lateAfter(signal, done.signal)]);
  } finally {
    done.abort();
    // Of what goes on until the program ends nobody wants to hear.
    work.catch(() => {});
  }
}

/** Rejects a while after the signal, never resolves. */
async function lateAfter(signal: AbortSignal, done: AbortSignal): Promise<never> {
  if (!signal.aborted)
    await new Promise<void>((resolve) => {
      signal.addEventListener("abort", () => resolve(), { once: true, signal: done });
    });
  await delay(GRACE_MS, undefined, { signal: done });
  throw new RelayError("unavailable", "stopped before it was done: run it again");
}
