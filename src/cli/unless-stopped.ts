import { RelayError } from "../domain/errors.ts";
import type { CommandIo } from "./io.ts";
import { StopLimit } from "./stop-limit.ts";

/** A healthy store has answered by then. */
const GRACE_MS = 5_000;

/**
 * Waits for the work of a command that ends by itself. When told to stop, the work still runs to its end, but a store or relay
 * that hangs is not waited for.
 * @throws {RelayError} when it is not done a few seconds after it was told to stop
 */
export async function unlessStopped(
  { signal }: Pick<CommandIo, "signal">,
  work: Promise<void>,
): Promise<void> {
  using limit = new StopLimit(signal, GRACE_MS);
  if ((await limit.race(work)) === "late")
    throw new RelayError("unavailable", "stopped before it was done: run it again");
}
