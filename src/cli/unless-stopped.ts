import { RelayError } from "../domain/errors.ts";
import type { CommandIo } from "./io.ts";
import { StopLimit } from "./stop-limit.ts";

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
  using limit = new StopLimit(signal, GRACE_MS);
  if ((await limit.race(work)) === "late")
    throw new RelayError("unavailable", "stopped before it was done: run it again");
}
