import type { Topic } from "../../../domain/log.ts";
import type { GroupSession } from "./group-session.ts";
import { offsetsAt } from "./partition-offsets.ts";

/**
 * Returns how many records lie between what is committed (or the oldest one left) and the end, by topic; nothing without partitions,
 * nor for a topic with a leader that cannot be reached.
 */
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
    const behind = partitions.map((partition) => {
      const end = latest(name, partition);
      const done = committed(name, partition)?.offset ?? 0;
      return end === null
        ? null
        : Math.max(0, end - Math.max(done, earliest(name, partition) ?? 0));
    });
    // A partition whose leader is away has an unknown end.
    if (behind.includes(null)) continue;
    lag.set(
      topic,
      behind.reduce<number>((sum, records) => sum + (records ?? 0), 0),
    );
  }
  return lag;
}
