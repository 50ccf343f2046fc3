import { LRUCache } from "lru-cache";
import type { Logger } from "../../domain/logger.ts";
import type { LostRecords, UnreadableCommits } from "./commit/unreadable-commits.ts";
import type { Row } from "./layout.ts";
import type { LmdbLogMetrics } from "./metrics.ts";

/** Most regions that are known to be told of. */
const MAX_TOLD = 10_000;

/** Tell of records that are damaged on the disk. */
export interface LossTellers {
  /** Of those of one region, once: several groups read them, and some again and again. */
  readonly damaged: (row: Row) => void;
  readonly unreadable: (commits: UnreadableCommits) => void;
}

export function makeLossTellers(logger: Logger, metrics: LmdbLogMetrics): LossTellers {
  const told = new LRUCache<string, true>({ max: MAX_TOLD });
  function tell({ topic, partition, from, to }: LostRecords, why: string): void {
    const count = to - from;
    metrics.lost(topic, count);
    logger.error({ topic, partition, from, to, count, why }, "log.records_lost");
  }
  return {
    damaged({ topic, partition, base, next, seq, positionBytes }) {
      const region = `${seq} ${positionBytes}`;
      if (told.has(region)) return;
      told.set(region, true);
      const records = { topic, partition, from: base, to: next };
      tell(records, "they are damaged on the disk, and left out");
    },
    unreadable({ commits, lost }) {
      const why = "they are damaged on the disk, and left out with all that they held";
      logger.error({ commits, why }, "log.commits_lost");
      for (const records of lost) tell(records, "the commit that held them is damaged on the disk");
    },
  };
}
