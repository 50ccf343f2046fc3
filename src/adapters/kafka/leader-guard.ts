import { classToGuard } from "./guard-class.ts";

interface PartitionMetadata {
  readonly partitionId: number;
  readonly leader: number;
}
type ByLeader = Readonly<Record<string, readonly number[]>>;
interface TopicOffsets {
  readonly topic: string;
  readonly partitions: readonly unknown[];
}
interface BrokerPool {
  readonly brokers: Readonly<Record<string, unknown>>;
  metadataExpireAt: number | null;
}
interface Cluster {
  readonly brokerPool: BrokerPool;
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
  findBroker: (this: Cluster, wanted: { readonly nodeId: string | number }) => Promise<unknown>;
}
interface ClusterState {
  /** Brokers by number, each with the timer of its next probe. */
  readonly away: Map<string, NodeJS.Timeout>;
  /** When the metadata was last called old since a partition is not in it, ms. */
  expiredMs: number;
}

const PROBE_EVERY_MS = 1_000;
const EXPIRE_EVERY_MS = 1_000;
/** All that can come of a connection that is to be made: refused, closed, or not answered. */
const NOT_CONNECTED: ReadonlySet<string> = new Set([
  "KafkaJSConnectionError",
  "KafkaJSConnectionClosedError",
  "KafkaJSRequestTimeoutError",
  "KafkaJSLockTimeout",
]);

const states = new WeakMap<Cluster, ClusterState>();

/**
 * kafkajs asks all leaders of what is to be written, or none: while one of them cannot be reached nothing is written, also
 * not to the partitions of the others, and a partition without a leader is asked for at a broker of the number -1. This
 * leaves both out, as kafkajs itself leaves out a partition that it does not know: callers see that they have no answer
 * for it. A broker that could not be reached is tried once a second, beside the work, until it can be or is no broker of the cluster
 * any more. A topic of which all that was asked is left out stays in the answer, where kafkajs looks for it; a partition that
 * is not known makes the metadata old. Safe to call again.
 */
export function guardLeaders(): void {
  const prototype = classToGuard("cluster/index.js") as Cluster | null;
  if (prototype === null) return;
  const { findLeaderForPartitions, fetchTopicsOffset, findBroker } = prototype;

  /** Until then it is left out. */
  function probeAfterAWhile(cluster: Cluster, nodeId: string): void {
    const { away } = stateOf(cluster);
    const timer = setTimeout(() => {
      // The client has ended, or the cluster has it no more.
      if (cluster.brokerPool.brokers[nodeId] === undefined) away.delete(nodeId);
      else
        findBroker.call(cluster, { nodeId }).then(
          () => away.delete(nodeId),
          () => probeAfterAWhile(cluster, nodeId),
        );
    }, PROBE_EVERY_MS);
    timer.unref();
    away.set(nodeId, timer);
  }

  prototype.findLeaderForPartitions = function guardedFindLeader(topic, partitions) {
    const { away } = stateOf(this);
    const leaders = new Map(
      this.findTopicPartitionMetadata(topic).map(({ partitionId, leader }) => [
        partitionId,
        leader,
      ]),
    );
    const led = partitions.filter((partition) => {
      const leader = leaders.get(Number(partition));
      if (leader === undefined) expireMetadata(this);
      return leader !== undefined && leader >= 0 && !away.has(String(leader));
    });
    return findLeaderForPartitions.call(this, topic, led);
  };
  prototype.fetchTopicsOffset = async function guardedFetchOffsets(topics) {
    for (;;) {
      const awayBefore = stateOf(this).away.size;
      try {
        const found = await fetchTopicsOffset.call(this, topics);
        const without = new Set(topics.map(({ topic }) => topic));
        for (const { topic } of found) without.delete(topic);
        return [...found, ...[...without].map((topic) => ({ topic, partitions: [] }))];
      } catch (error) {
        // Those of the others are worth having.
        if (stateOf(this).away.size <= awayBefore) throw error;
      }
    }
  };
  prototype.findBroker = async function guardedFindBroker(wanted) {
    const { away } = stateOf(this);
    const nodeId = String(wanted.nodeId);
    try {
      const broker = await findBroker.call(this, wanted);
      clearTimeout(away.get(nodeId));
      away.delete(nodeId);
      return broker;
    } catch (error) {
      if (NOT_CONNECTED.has((error as Error).name) && !away.has(nodeId))
        probeAfterAWhile(this, nodeId);
      throw error;
    }
  };
}

function stateOf(cluster: Cluster): ClusterState {
  const known = states.get(cluster);
  if (known !== undefined) return known;
  const state: ClusterState = { away: new Map(), expiredMs: -Infinity };
  states.set(cluster, state);
  return state;
}

/** It was made by another process since. */
function expireMetadata(cluster: Cluster): void {
  const state = stateOf(cluster);
  const nowMs = performance.now();
  if (nowMs - state.expiredMs < EXPIRE_EVERY_MS) return;
  state.expiredMs = nowMs;
  cluster.brokerPool.metadataExpireAt = null;
}
