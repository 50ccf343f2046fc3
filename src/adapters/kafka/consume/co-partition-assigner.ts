import type { Assigner } from "kafkajs";
import { AssignerProtocol } from "../kafkajs.ts";

const NAME = "relay-co-partition";

/**
 * Gives partition p of every topic to one member, so that a destination's limiter, lanes, retries and outcomes live in
 * one place. Members are sorted, hence every leader computes the same.
 */
export function makeCoPartitionAssigner(
  partitionsOf: (topic: string) => readonly number[],
): Assigner {
  return {
    name: NAME,
    version: 1,
    async assign({ members, topics }) {
      const memberIds = members.map(({ memberId }) => memberId).sort();
      const assignment = coPartition(
        memberIds,
        new Map(topics.map((topic) => [topic, partitionsOf(topic)])),
      );
      return memberIds.map((memberId) => ({
        memberId,
        memberAssignment: AssignerProtocol.MemberAssignment.encode({
          version: 1,
          assignment: assignment.get(memberId) ?? {},
          userData: Buffer.alloc(0),
        }),
      }));
    },
    protocol: ({ topics }) => ({
      name: NAME,
      metadata: AssignerProtocol.MemberMetadata.encode({
        version: 1,
        topics,
        userData: Buffer.alloc(0),
      }),
    }),
  };
}

/** Member → topic → partitions. */
export function coPartition(
  memberIds: readonly string[],
  partitions: ReadonlyMap<string, readonly number[]>,
): Map<string, Record<string, number[]>> {
  const assignment = new Map<string, Record<string, number[]>>(memberIds.map((id) => [id, {}]));
  for (const [topic, numbers] of partitions) {
    for (const partition of numbers) {
      const memberId = memberIds[partition % memberIds.length];
      const topics = memberId === undefined ? undefined : assignment.get(memberId);
      if (topics !== undefined) (topics[topic] ??= []).push(partition);
    }
  }
  return assignment;
}
