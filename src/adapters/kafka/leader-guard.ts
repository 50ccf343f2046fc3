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
interface Cluster {
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

/** A broker that could not be reached is tried again after so long, by one of those that ask for it. */
const PROBE_EVERY_MS = 1_000;

/** By broker: when it is to be tried again. */
const unreachable = new WeakMap<Cluster, Map<string, number>>();

/**
 * kafkajs asks all leaders of what is to be written, or none: while one of them cannot be reached nothing is written, also
 * not to the partitions of the others, and a partition without a leader is asked for at a broker of the number -1. This
 * leaves both out, as kafkajs itself leaves out a partition that it does not know: callers see that they have no answer
 * for it. A topic of which all that was asked is left out stays in the answer, where kafkajs looks for it. Safe to call again.
 */
export function guardLeaders(): void {
  const prototype = classToGuard("cluster/index.js") as Cluster | null;
  if (prototype === null) return;
  const { findLeaderForPartitions, fetchTopicsOffset, findBroker } = prototype;
  prototype.findLeaderForPartitions = function guardedFindLeader(topic, partitions) {
    const leaders = new Map(
      this.findTopicPartitionMetadata(topic).map(({ partitionId, leader }) => [
        partitionId,
        leader,
      ]),
    );
    const led = partitions.filter((partition) => {
      const leader = leaders.get(Number(partition));
      return leader !== undefined && leader >= 0 && !isLeftOut(this, String(leader));
    });
    const found = findLeaderForPartitions.call(this, topic, led);
    for (const leader of Object.keys(found)) probe(this, leader);
    return found;
  };
  prototype.fetchTopicsOffset = async function guardedFetchOffsets(topics) {
    const found = await fetchTopicsOffset.call(this, topics);
    const answered = new Set(found.map(({ topic }) => topic));
    const without = new Set(topics.map(({ topic }) => topic).filter((name) => !answered.has(name)));
    return [...found, ...[...without].map((topic) => ({ topic, partitions: [] }))];
  };
  prototype.findBroker = async function guardedFindBroker(wanted) {
    try {
      const broker = await findBroker.call(this, wanted);
      unreachable.get(this)?.delete(String(wanted.nodeId));
      return broker;
    } catch (error) {
      if ((error as Error).name === "KafkaJSConnectionError") {
        const brokers = unreachable.get(this) ?? new Map<string, number>();
        unreachable.set(this, brokers.set(String(wanted.nodeId), nextProbe()));
      }
      throw error;
    }
  };
}

function isLeftOut(cluster: Cluster, nodeId: string): boolean {
  const untilMs = unreachable.get(cluster)?.get(nodeId);
  return untilMs !== undefined && performance.now() < untilMs;
}

/** Whoever is given it tries it; the others go on without it meanwhile. */
function probe(cluster: Cluster, nodeId: string): void {
  const brokers = unreachable.get(cluster);
  if (brokers?.has(nodeId) === true) brokers.set(nodeId, nextProbe());
}

function nextProbe(): number {
  return performance.now() + PROBE_EVERY_MS;
}
