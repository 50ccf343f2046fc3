import { LRUCache } from "lru-cache";
import type { Topic } from "../../../domain/log.ts";
import type { KafkaLogOptions } from "../kafka-options.ts";

/** Records that a group has not read, and never will. */
export interface LostRecords {
  readonly topic: Topic;
  readonly partition: number;
  /** Offset of the first one. */
  readonly from: number;
  /** Offset behind the last one. */
  readonly to: number;
  /** Retention deleted them before the group had read them, or they were changed on a broker's disk. */
  readonly why: keyof typeof WHY;
}

const WHY = {
  deleted: "retention has deleted them",
  damaged: "they are damaged on a broker's disk, and left out",
};
/** Most damaged stretches that are known to be told of. */
const MOST_TOLD = 10_000;

/** Returns what tells of them; of damaged ones once, since a group reads some again and again. */
export function makeLossTeller({
  logger,
  metrics,
}: Pick<KafkaLogOptions, "logger" | "metrics">): (group: string, lost: LostRecords) => void {
  const told = new LRUCache<string, true>({ max: MOST_TOLD });
  return (group, { topic, partition, from, to, why }) => {
    if (why === "damaged") {
      const stretch = `${group} ${topic} ${partition} ${from}`;
      if (told.has(stretch)) return;
      told.set(stretch, true);
    }
    const count = to - from;
    metrics?.lost(topic, count);
    logger.error({ group, topic, partition, from, to, count, why: WHY[why] }, "log.records_lost");
  };
}
