import { LRUCache } from "lru-cache";
import type { Logger } from "../../domain/logger.ts";
import type { Row } from "./layout.ts";
import type { LmdbLogMetrics } from "./metrics.ts";

/** Most regions that are known to be told of. */
const MOST_TOLD = 10_000;

/** Returns what tells of records that are damaged on the disk, once: several groups read them, and some again and again. */
export function makeLossTeller(logger: Logger, metrics: LmdbLogMetrics): (row: Row) => void {
  const told = new LRUCache<string, true>({ max: MOST_TOLD });
  return ({ topic, partition, base, next, seq, positionBytes }) => {
    const region = `${seq} ${positionBytes}`;
    if (told.has(region)) return;
    told.set(region, true);
    const count = next - base;
    metrics.lost(topic, count);
    const why = "they are damaged on the disk, and left out";
    logger.error({ topic, partition, from: base, to: next, count, why }, "log.records_lost");
  };
}
