import type { Committed } from "../../../domain/log.ts";
import type { GroupSession } from "./group-session.ts";
import { offsetsAt } from "./partition-reader.ts";

/** What a new owner needs to know of its partitions. */
export interface AssignmentOffsets {
  /**
   * As it stands; at most the end of the log, which may end before it when it was lost with its disk and made anew. What was in it
   * is gone. What was appended to the new one before this is asked is not read; what comes after is, also where it gets offsets
   * that the group has been past.
   */
  committed(topic: string, partition: number): Committed | null;
  /** Where records begin to flow: from what was committed; retention may have passed it, and a lost log may end before it. */
  start(topic: string, partition: number): number;
  /** Whether its leader answered, without which the others cannot be told. */
  isKnown(topic: string, partition: number): boolean;
}

/** Asks once for all partitions of an assignment. */
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
