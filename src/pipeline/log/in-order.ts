import type { Log, NewRecord } from "../../domain/log.ts";

/**
 * Returns the appends that make the steps durable in order: a single one if the log writes it whole, else one per step. The
 * order matters when later steps are never written: the end of a try comes before its follow-up, or the same try would be made
 * again beside the follow-up; tasks before the mark that they are no longer held, or they would be lost; and the first tries of
 * a replay before the fan-out that announces them, or they would be waited for forever.
 */
export function inOrder(
  log: Pick<Log, "writesWhole">,
  steps: readonly (readonly NewRecord[])[],
): readonly (readonly NewRecord[])[] {
  const appends = log.writesWhole ? [steps.flat()] : steps;
  return appends.filter(({ length }) => length > 0);
}
