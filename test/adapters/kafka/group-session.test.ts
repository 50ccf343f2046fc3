import type { Cluster } from "kafkajs";
import { expect, test } from "vitest";
import { GroupSession } from "../../../src/adapters/kafka/consume/group-session.ts";
import { closedError, protocolError } from "../../support/group-fake.ts";

const NEW = { groupId: "g", memberId: "" };

interface Coordinator {
  joinGroup(request: object): Promise<unknown>;
  leaveGroup(request: object): Promise<unknown>;
}

/** Returns the coordinator as a session's consumer calls it, and what it is asked to join as; it knows one member. */
async function joinedCoordinator() {
  const joinedAs: string[] = [];
  const brokers = { member: "m1", leave: async (): Promise<void> => undefined };
  const coordinator = {
    joinGroup: async ({ memberId }: { memberId: string }) => {
      joinedAs.push(memberId);
      if (memberId !== "" && memberId !== brokers.member) throw protocolError("UNKNOWN_MEMBER_ID");
      return { generationId: joinedAs.length, memberId: brokers.member };
    },
    leaveGroup: () => brokers.leave(),
  };
  const cluster = { findGroupCoordinator: async () => coordinator } as unknown as Cluster;
  const session = new GroupSession({
    groupId: "g",
    sessionTimeoutMs: 10_000,
    monotonic: () => 0,
    beforeJoin: async () => undefined,
  });
  session.attach(cluster);
  const found: unknown = await cluster.findGroupCoordinator({ groupId: "g" });
  const group = found as Coordinator;
  await group.joinGroup(NEW);
  return { group, joinedAs, brokers };
}

test("regression: a consumer that starts again after its brokers were away joins as the member that it was: the group waited for that one until its session was over", async () => {
  const { group, joinedAs, brokers } = await joinedCoordinator();
  brokers.leave = () => Promise.reject(closedError());
  await expect(group.leaveGroup({ ...NEW, memberId: "m1" })).rejects.toThrow("Closed connection");
  await group.joinGroup(NEW);
  expect(joinedAs).toEqual(["", "m1"]);
});

test("one that the group has given up joins as a new member when it is told so", async () => {
  const { group, joinedAs, brokers } = await joinedCoordinator();
  brokers.member = "m2";
  await expect(group.joinGroup(NEW)).rejects.toMatchObject({ type: "UNKNOWN_MEMBER_ID" });
  await group.joinGroup(NEW);
  expect(joinedAs).toEqual(["", "m1", ""]);
});

test("one that has left joins as a new member", async () => {
  const { group, joinedAs } = await joinedCoordinator();
  await group.leaveGroup({ ...NEW, memberId: "m1" });
  await group.joinGroup(NEW);
  expect(joinedAs).toEqual(["", ""]);
});
