import type { Admin } from "kafkajs";

/** Returns what the group has committed as metadata of the topic, in whichever partition; nothing while it has no member. */
export async function committedMetadata(
  admin: Admin,
  groupId: string,
  topicName: string,
): Promise<readonly string[]> {
  const { groups } = await admin.describeGroups([groupId]);
  if (groups.every(({ members }) => members.length === 0)) return [];
  const topics = await admin.fetchOffsets({ groupId, topics: [topicName] });
  return topics
    .flatMap(({ partitions }) => partitions)
    .flatMap(({ metadata }) => (metadata === null ? [] : [metadata]));
}
