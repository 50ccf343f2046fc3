import { awayCount, isAway } from "./away-brokers.ts";
import { classToGuard } from "./guard-class.ts";
import { keepMetadataFailure } from "./metadata-failure.ts";

interface PartitionMetadata {
  readonly partitionId: number;
  readonly leader: number;
}
type ByLeader = Readonly<Record<string, readonly number[]>>;
interface TopicOffsets {
  readonly topic: string;
  readonly partitions: readonly unknown[];
}
interface Cluster {
  readonly brokerPool: Parameters<typeof isAway>[0] & { metadataExpireAt: number | null };
  findTopicPartitionMetadata(topic: string): readonly PartitionMetadata[];
  findLeaderForPartitions: (
    this: Cluster,
    topic: string,
    partitions: readonly (number | string)[],
  ) => ByLeader;
  fetchTopicsOffset: (
    this: Cluster,
    topics: readonly { readonly topic: string }[],
  ) => Promise<readonly TopicOffsets[]>;
}

const EXPIRE_EVERY_MS = 1_000;
/** When the metadata was last expired because a partition is missing from it, ms. */
const expiredMs = new WeakMap<Cluster, number>();

/**
 * Leaves out partitions whose leader cannot be asked. kafkajs asks all leaders of what is to be written, or none: while one of them is
 * away nothing is written, not even to the partitions of the others, and a partition without a leader is asked for at a broker with the
 * number -1. This leaves both out, as kafkajs itself leaves out a partition that it does not know: callers see that they have no answer
 * for it. A topic of which all that was asked is left out stays in the answer, where kafkajs looks for it; an unknown partition
 * expires the metadata. Metadata that no broker gives fails with the broker's failure. Safe to call again.
 */
export function guardLeaders(): void {
  const prototype = classToGuard("cluster/index.js") as Cluster | null;
  if (prototype === null) return;
  keepMetadataFailure(prototype);
  const { findLeaderForPartitions, fetchTopicsOffset } = prototype;

  prototype.findLeaderForPartitions = function guardedFindLeader(topic, partitions) {
    const leaders = new Map(
      this.findTopicPartitionMetadata(topic).map(({ partitionId, leader }) => [
        partitionId,
        leader,
      ]),
    );
    const led = partitions.filter((partition) => {
      const leader = leaders.get(Number(partition));
      if (leader === undefined) expireMetadata(this);
      return leader !== undefined && leader >= 0 && !isAway(this.brokerPool, leader);
    });
    return findLeaderForPartitions.call(this, topic, led);
  };
  prototype.fetchTopicsOffset = async function guardedFetchOffsets(topics) {
    for (;;) {
      const awayBefore = awayCount(this.brokerPool);
      try {
        const found = await fetchTopicsOffset.call(this, topics);
        const without = new Set(topics.map(({ topic }) => topic));
        for (const { topic } of found) without.delete(topic);
        return [...found, ...[...without].map((topic) => ({ topic, partitions: [] }))];
      } catch (error) {
        // The answers of the other leaders are worth having.
        if (awayCount(this.brokerPool) <= awayBefore) throw error;
      }
    }
  };
}

/** Expires metadata without a partition that another process has made since. */
function expireMetadata(cluster: Cluster): void {
  const nowMs = performance.now();
  if (nowMs - (expiredMs.get(cluster) ?? -Infinity) < EXPIRE_EVERY_MS) return;
  expiredMs.set(cluster, nowMs);
  cluster.brokerPool.metadataExpireAt = null;
}
