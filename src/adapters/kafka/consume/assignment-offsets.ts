import type { Committed } from "../../../domain/log.ts";
import type { GroupSession } from "./group-session.ts";
import { offsetsAt } from "./partition-reader.ts";

/** What a new owner needs to know of its partitions. */
export interface AssignmentOffsets {
  /**
   * What was committed, at most the end of the log: one that was lost with its disk and made anew may end earlier. What was in the
   * lost one is gone. What was appended to the new one before this look-up is not read; what comes after is, even where it gets
   * offsets that the group has already passed.
   */
  committed(topic: string, partition: number): Committed | null;
  /** Where records begin to flow: at what was committed, unless retention has passed it or a lost log ends before it. */
  start(topic: string, partition: number): number;
  /** Whether its leader answered; if not, the other two cannot be relied on. */
  isKnown(topic: string, partition: number): boolean;
}

/** Looks up all partitions of an assignment at once. */
export async function lookUpOffsets(
  session: GroupSession,
  topics: readonly { readonly topic: string; readonly partitions: readonly number[] }[],
): Promise<AssignmentOffsets> {
  const [committed, earliest, latest] = await Promise.all([
    session.committed(topics),
    offsetsAt(session.cluster, topics, "earliest"),
    offsetsAt(session.cluster, topics, "latest"),
  ]);
  const endOf = (topic: string, partition: number) =>
    latest(topic, partition) ?? Number.MAX_SAFE_INTEGER;
  return {
    isKnown: (topic, partition) =>
      earliest(topic, partition) !== null && latest(topic, partition) !== null,
    committed: (topic, partition) => {
      const done = committed(topic, partition);
      return done && { ...done, offset: Math.min(endOf(topic, partition), done.offset) };
    },
    start: (topic, partition) => {
      const done = committed(topic, partition)?.offset ?? 0;
      return Math.min(endOf(topic, partition), Math.max(earliest(topic, partition) ?? 0, done));
    },
  };
}
