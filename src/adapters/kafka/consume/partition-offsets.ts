import type { Cluster } from "kafkajs";
import { LogError } from "../../../domain/log.ts";
import { partitionName } from "../partition-name.ts";
import type { TopicPartition } from "./readable-records.ts";
import { withRetries } from "./with-retries.ts";

/** Partitions of one topic, by the brokers' name for it. */
export interface TopicPartitions {
  readonly topic: string;
  readonly partitions: readonly number[];
}

export interface PartitionAddress extends TopicPartition {
  /** Whether the answer is no longer waited for. */
  readonly isClosed?: () => boolean;
}

/** Looks up many offsets with one request per broker. */
export async function offsetsAt(
  cluster: Cluster,
  topics: readonly TopicPartitions[],
  end: "earliest" | "latest",
): Promise<(topic: string, partition: number) => number | null> {
  const answer = await cluster.fetchTopicsOffset(
    topics.map(({ topic, partitions }) => ({
      topic,
      partitions: partitions.map((partition) => ({ partition })),
      fromBeginning: end === "earliest",
    })),
  );
  const found = new Map(
    answer.flatMap(({ topic, partitions }) =>
      partitions.map(
        ({ partition, offset }) => [partitionName(topic, partition), Number(offset)] as const,
      ),
    ),
  );
  return (topic, partition) => found.get(partitionName(topic, partition)) ?? null;
}

/** Returns the offset of the next record, or of the oldest one left. */
export async function offsetAt(
  cluster: Cluster,
  { name, partition, isClosed }: PartitionAddress,
  end: "earliest" | "latest",
): Promise<number> {
  return withRetries(cluster, isClosed, async () => {
    const offsets = await offsetsAt(cluster, [{ topic: name, partitions: [partition] }], end);
    const offset = offsets(name, partition);
    if (offset === null)
      throw new LogError("log_unavailable", `no offsets for ${partitionName(name, partition)}`);
    return offset;
  });
}
