import type { LmdbLog } from "../../src/adapters/lmdb/open-lmdb-log.ts";
import { collect } from "./log-consumer.ts";
import { until } from "./wait-for.ts";

/** Makes a group read all attempts of the log, and commit past them. */
export async function readAllAttempts(log: LmdbLog): Promise<void> {
  const topic = "attempts";
  await using reading = await collect(log, { group: "old", topics: [topic], deadlineMs: 20_000 });
  await until(() => reading.owned.size === log.partitions, "all partitions");
  for (const partition of reading.owned.values())
    await partition.commit([{ topic, offset: await partition.endOffset(topic) }]);
}
