import type { GroupSession } from "./group-session.ts";
import { offsetsAt } from "./partition-reader.ts";

/** What a new owner needs to know of its partitions. */
export interface AssignmentOffsets {
  committed(topic: string, partition: number): { offset: number; metadata: string } | null;
  /** Where records begin to flow: from what was committed; retention may have passed it, and a lost log may end before it. */
  start(topic: string, partition: number): number;
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
  return {
    committed,
    start: (topic, partition) => {
      const done = committed(topic, partition)?.offset ?? 0;
      const end = latest(topic, partition) ?? Number.MAX_SAFE_INTEGER;
      return Math.min(end, Math.max(earliest(topic, partition) ?? 0, done));
    },
  };
}
