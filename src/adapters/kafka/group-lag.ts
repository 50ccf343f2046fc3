import type { Topic } from "../../domain/log.ts";
import type { GroupSession } from "./group-session.ts";
import { offsetsAt } from "./partition-reader.ts";

/** Records between what is committed (or the oldest that is left) and the end, by topic; none without partitions. */
export async function groupLag(
  session: GroupSession,
  topics: readonly (readonly [topic: Topic, name: string])[],
  partitions: readonly number[],
): Promise<ReadonlyMap<Topic, number>> {
  const lag = new Map<Topic, number>();
  if (partitions.length === 0) return lag;
  const wanted = topics.map(([, name]) => ({ topic: name, partitions }));
  const [committed, earliest, latest] = await Promise.all([
    session.committed(wanted),
    offsetsAt(session.cluster, wanted, "earliest"),
    offsetsAt(session.cluster, wanted, "latest"),
  ]);
  for (const [topic, name] of topics) {
    let records = 0;
    for (const partition of partitions) {
      const done = committed(name, partition)?.offset ?? 0;
      const oldest = earliest(name, partition) ?? 0;
      records += Math.max(0, (latest(name, partition) ?? 0) - Math.max(done, oldest));
    }
    lag.set(topic, records);
  }
  return lag;
}
