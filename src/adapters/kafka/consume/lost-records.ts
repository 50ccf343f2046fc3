import { LRUCache } from "lru-cache";
import type { Topic } from "../../../domain/log.ts";
import type { KafkaLogOptions } from "../kafka-options.ts";

export interface RecordStretch {
  readonly topic: Topic;
  readonly partition: number;
  /** Offset of the first one. */
  readonly from: number;
  /** Offset behind the last one. */
  readonly to: number;
}

export interface LostRecords extends RecordStretch {
  readonly why: keyof typeof WHY;
}

/** What a group tells of records that its partition's leader does not have, or not as they were written. */
export interface LossTeller {
  /** They will never be read: they are gone from the log, or no broker has them undamaged. */
  lost(records: LostRecords): void;
  /** They are damaged on the disk of the leader, and were read from the copy of this broker. */
  mended(records: RecordStretch, nodeId: number): void;
}

const WHY = {
  deleted: "retention or compaction has deleted them, or they went with a broker's disk",
  damaged: "they are damaged on the brokers' disks, and left out",
};
/** Most stretches that are known to be told of. */
const MAX_TOLD = 10_000;

/**
 * Returns what makes a teller for a group. It tells of each stretch once: a group reads some records again and again, and what is
 * damaged leaves a gap as well.
 */
export function makeLossTellers({
  logger,
  metrics,
}: Pick<KafkaLogOptions, "logger" | "metrics">): (group: string) => LossTeller {
  const told = new LRUCache<string, true>({ max: MAX_TOLD });
  const isNew = (group: string, how: string, { topic, partition, to }: RecordStretch) => {
    // By its end: it may be asked for from within.
    const stretch = `${group} ${how} ${topic} ${partition} ${to}`;
    if (told.has(stretch)) return false;
    told.set(stretch, true);
    return true;
  };
  return (group) => ({
    lost: (records) => {
      const { topic, partition, from, to, why } = records;
      if (!isNew(group, "lost", records)) return;
      const count = to - from;
      metrics?.lost(topic, count);
      logger.error({ group, topic, partition, from, to, count, why: WHY[why] }, "log.records_lost");
    },
    mended: (records, copy) => {
      if (!isNew(group, "mended", records)) return;
      const { topic, partition, from, to } = records;
      const mend =
        "they were read from another broker's copy: replace the disk of the partition's leader";
      logger.error({ group, topic, partition, from, to, copy, mend }, "log.records_damaged");
    },
  });
}
