import type { Committed } from "../../../domain/log.ts";
import type { GroupSession } from "./group-session.ts";
import type { LostRecords } from "./lost-records.ts";
import { offsetsAt, type TopicPartitions } from "./partition-offsets.ts";

/** What a new owner needs to know of its partitions. */
export interface AssignmentOffsets {
  /**
   * What was committed, at least the oldest record left, which retention may have moved past it, and at most the end of the log:
   * one that was lost with its disk and made anew may end earlier. What was in the lost one is gone. What was appended to the new
   * one before this look-up is not read; what comes after is, even where it gets offsets that the group has already passed.
   */
  committed(topic: string, partition: number): Committed | null;
  /** Where records begin to flow: at what was committed, unless retention has passed it or a lost log ends before it. */
  start(topic: string, partition: number): number;
  /** What retention has deleted although it was not committed; null if nothing. A group's first start loses nothing. */
  lost(topic: string, partition: number): Pick<LostRecords, "from" | "to"> | null;
  /** Whether its leader answered; if not, the other three cannot be relied on. */
  isKnown(topic: string, partition: number): boolean;
}

/** Looks up all partitions of an assignment at once. */
export async function lookUpOffsets(
  session: GroupSession,
  topics: readonly TopicPartitions[],
): Promise<AssignmentOffsets> {
  const [committed, earliest, latest] = await Promise.all([
    session.committed(topics),
    offsetsAt(session.cluster, topics, "earliest"),
    offsetsAt(session.cluster, topics, "latest"),
  ]);
  const closest = (topic: string, partition: number, offset: number) =>
    Math.min(
      latest(topic, partition) ?? Number.MAX_SAFE_INTEGER,
      Math.max(earliest(topic, partition) ?? 0, offset),
    );
  return {
    isKnown: (topic, partition) =>
      earliest(topic, partition) !== null && latest(topic, partition) !== null,
    committed: (topic, partition) => {
      const done = committed(topic, partition);
      return done && { ...done, offset: closest(topic, partition, done.offset) };
    },
    start: (topic, partition) =>
      closest(topic, partition, committed(topic, partition)?.offset ?? 0),
    lost: (topic, partition) => {
      const from = committed(topic, partition)?.offset;
      if (from === undefined) return null;
      const to = closest(topic, partition, from);
      return from < to ? { from, to } : null;
    },
  };
}
