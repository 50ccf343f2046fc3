import type { Assigner } from "kafkajs";
import { AssignerProtocol } from "../kafkajs.ts";

const NAME = "relay-co-partition";

/**
 * Makes an assigner that gives partition p of every topic to one member, so that a destination's limiter, lanes, retries and outcomes
 * live in one place. Members are sorted, so that every leader computes the same.
 * An assignment also says how many partitions there are: members learn of new ones at different times, and an endpoint would
 * meanwhile have two homes.
 */
export function makeCoPartitionAssigner(
  partitionsOf: (topic: string) => readonly number[],
): Assigner {
  return {
    name: NAME,
    version: 1,
    async assign({ members, topics }) {
      const memberIds = members.map(({ memberId }) => memberId).sort();
      const partitions = new Map(topics.map((topic) => [topic, partitionsOf(topic)]));
      const assignment = coPartition(memberIds, partitions);
      const userData = encodeCount(
        Math.min(...[...partitions.values()].map(({ length }) => length)),
      );
      return memberIds.map((memberId) => ({
        memberId,
        memberAssignment: AssignerProtocol.MemberAssignment.encode({
          version: 1,
          assignment: assignment.get(memberId) ?? {},
          userData,
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

function encodeCount(partitions: number): Buffer {
  return Buffer.from(JSON.stringify({ partitions }));
}

/** Returns how many partitions there are by an assignment; null if it does not say, since its leader is of an older version. */
export function assignedCount(memberAssignment: Buffer): number | null {
  const userData = AssignerProtocol.MemberAssignment.decode(memberAssignment)?.userData;
  if (userData === undefined || userData === null || userData.length === 0) return null;
  const { partitions } = JSON.parse(userData.toString()) as { readonly partitions: number };
  return partitions;
}

/** Returns member → topic → partitions. */
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
