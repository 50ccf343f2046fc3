import type { Log, NewRecord } from "../../domain/log.ts";

/**
 * The appends that make the steps durable in their order: one where the log writes it whole, else one for each step. What says that
 * something is over must not be found without what came of it: the end of a try stands before its follow-up, which would be made beside
 * the same try made anew; tasks before the mark that they are no longer held, which would be the last of them; and the first tries
 * of a replay before the fan-out that tells of it, which would be waited for for ever.
 */
export function inOrder(
  log: Pick<Log, "writesWhole">,
  steps: readonly (readonly NewRecord[])[],
): readonly (readonly NewRecord[])[] {
  const appends = log.writesWhole ? [steps.flat()] : steps;
  return appends.filter(({ length }) => length > 0);
}
