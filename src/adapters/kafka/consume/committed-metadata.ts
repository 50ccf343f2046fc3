import type { Admin } from "kafkajs";

/** Returns what the group has committed as metadata of the topic, by whatever member; of partitions without a commit, nothing. */
export async function committedMetadata(
  admin: Admin,
  groupId: string,
  topicName: string,
): Promise<readonly string[]> {
  const topics = await admin.fetchOffsets({ groupId, topics: [topicName] });
  return topics
    .flatMap(({ partitions }) => partitions)
    .flatMap(({ metadata }) => (metadata === null ? [] : [metadata]));
}
