import type { Admin, ITopicMetadata } from "kafkajs";
import { LogError } from "../../domain/log.ts";
import { describeTopics } from "./check-topics.ts";
import { partitionName } from "./partition-name.ts";
import { FRAMING_BYTES } from "./topic-settings.ts";

export interface TopicsFound {
  /** The partition count that holds for all topics: the smallest, while some are still being grown. */
  readonly partitions: number;
  /** `topic/partition`, with the brokers' name of the topic. */
  readonly leaderless: readonly string[];
  /** Names of topics with fewer partitions than another one: they are being grown, or somebody else grew the other. */
  readonly small: readonly string[];
}

/** @throws {LogError} `log_unavailable` when a topic has no partition with a leader */
export async function findTopics(admin: Admin, names: readonly string[]): Promise<TopicsFound> {
  const { topics } = await admin.fetchTopicMetadata({ topics: [...names] });
  for (const { name, partitions } of topics)
    if (partitions.every(isLeaderless))
      throw new LogError("log_unavailable", `no partition of ${name} has a leader`);
  const counts = topics.map(({ partitions }) => partitions.length);
  const most = Math.max(...counts);
  return {
    partitions: Math.min(...counts),
    small: topics.filter(({ partitions }) => partitions.length < most).map(({ name }) => name),
    leaderless: topics.flatMap((topic) => leaderlessOf(topic)),
  };
}

function isLeaderless({ leader }: { readonly leader: number }): boolean {
  return leader < 0;
}

/** Returns the names of partitions without a leader, of those from this number on. */
export function leaderlessOf({ name, partitions }: ITopicMetadata, from = 0): readonly string[] {
  return partitions
    .filter((partition) => partition.partitionId >= from && isLeaderless(partition))
    .map(({ partitionId }) => partitionName(name, partitionId));
}

export async function missingTopics(
  admin: Admin,
  names: readonly string[],
): Promise<readonly string[]> {
  const existing = new Set(await admin.listTopics());
  return names.filter((name) => !existing.has(name));
}

/** Returns the largest record that any of the topics takes as it is now: one made for a larger limit keeps it. */
export async function largestRecordBytes(admin: Admin, names: readonly string[]): Promise<number> {
  const key = "max.message.bytes";
  const resources = await describeTopics(
    admin,
    names.map((name) => ({ name, keys: [key] })),
  );
  const limits = resources.flatMap(({ configEntries }) => configEntries);
  return Math.max(0, ...limits.map(({ configValue }) => Number(configValue) - FRAMING_BYTES));
}
