import fc from "fast-check";
import { expect, test } from "vitest";
import {
  assignedCount,
  coPartition,
  makeCoPartitionAssigner,
} from "../../../src/adapters/kafka/consume/co-partition-assigner.ts";
import { AssignerProtocol } from "../../../src/adapters/kafka/kafkajs.ts";

test("every partition has one owner, the same for all topics, and nobody has more than one above the others", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 9 }),
      fc.integer({ min: 1, max: 60 }),
      fc.integer({ min: 1, max: 60 }),
      (memberCount, few, many) => {
        const members = Array.from({ length: memberCount }, (_, n) => `m${n}`);
        const numbers = (count: number) => Array.from({ length: count }, (_, p) => p);
        const assignment = coPartition(
          members,
          new Map([
            ["a", numbers(few)],
            ["b", numbers(many)],
          ]),
        );
        const ownerOf = (topic: string, p: number) =>
          members.filter((m) => assignment.get(m)?.[topic]?.includes(p));
        for (const p of numbers(few)) expect(ownerOf("a", p)).toHaveLength(1);
        for (const p of numbers(many)) expect(ownerOf("b", p)).toHaveLength(1);
        for (const p of numbers(Math.min(few, many)))
          expect(ownerOf("a", p)).toEqual(ownerOf("b", p));
        const sizes = members.map((m) => assignment.get(m)?.["b"]?.length ?? 0);
        expect(Math.max(...sizes) - Math.min(...sizes)).toBeLessThanOrEqual(1);
      },
    ),
  );
});

test("an assignment says how many partitions all topics have; one of an older version says nothing", async () => {
  const counts = new Map([
    ["a", [0, 1, 2]],
    ["b", [0, 1, 2, 3]],
  ]);
  const assigner = makeCoPartitionAssigner((topic) => counts.get(topic) ?? []);
  const { metadata } = assigner.protocol({ topics: ["a", "b"] });
  const members = ["m1", "m2"].map((memberId) => ({ memberId, memberMetadata: metadata }));
  const assigned = await assigner.assign({ members, topics: ["a", "b"] });
  for (const { memberAssignment } of assigned) expect(assignedCount(memberAssignment)).toBe(3);
  const old = AssignerProtocol.MemberAssignment.encode({
    version: 1,
    assignment: { a: [0] },
    userData: Buffer.alloc(0),
  });
  expect(assignedCount(old)).toBeNull();
  // The assignment of a member that gets nothing.
  expect(assignedCount(Buffer.alloc(0))).toBeNull();
});

test("the order in which members are listed does not matter", async () => {
  const assigner = makeCoPartitionAssigner(() => [0, 1, 2, 3]);
  const { metadata } = assigner.protocol({ topics: ["a"] });
  const assign = async (ids: string[]) => {
    const members = ids.map((memberId) => ({ memberId, memberMetadata: metadata }));
    const assigned = await assigner.assign({ members, topics: ["a", "b"] });
    return Object.fromEntries(
      assigned.map(({ memberId, memberAssignment }) => [
        memberId,
        AssignerProtocol.MemberAssignment.decode(memberAssignment)?.assignment,
      ]),
    );
  };
  const expected = { m1: { a: [0, 2], b: [0, 2] }, m2: { a: [1, 3], b: [1, 3] } };
  expect(await assign(["m1", "m2"])).toEqual(expected);
  expect(await assign(["m2", "m1"])).toEqual(expected);
});
