import { createRequire } from "node:module";
import { afterEach, expect, test, vi } from "vitest";
import { guardLeaders } from "../../../src/adapters/kafka/leader-guard.ts";
import { protocolError, unreachableError } from "../../support/group-fake.ts";

afterEach(() => void vi.useRealTimers());

/** Partition 0 is led by broker 1, partition 1 by broker 2, partition 2 by nobody, partition 3 by broker 2. */
const LEADERS = [1, 2, -1, 2];

function aCluster(connect: (nodeId: string) => void) {
  vi.useFakeTimers({ toFake: ["performance"] });
  guardLeaders();
  guardLeaders();
  const Cluster = createRequire(import.meta.url)("kafkajs/src/cluster/index.js");
  const cluster = Object.create(Cluster.prototype);
  cluster.brokerPool = {
    metadata: {
      topicMetadata: [
        {
          topic: "t",
          partitionMetadata: LEADERS.map((leader, partitionId) => ({ partitionId, leader })),
        },
      ],
    },
    findBroker: async ({ nodeId }: { nodeId: string }) => connect(nodeId),
  };
  cluster.refreshMetadata = async () => {};
  return cluster;
}

test("a partition without a leader is left out, as one that is not known is", () => {
  const cluster = aCluster(() => {});
  expect(cluster.findLeaderForPartitions("t", ["0", "1", "2", "3", "7"])).toEqual({
    1: [0],
    2: [1, 3],
  });
});

test("regression: what a broker leads that cannot be reached is left out, but for one try a second: nothing was written while it was away", async () => {
  let isAway = true;
  const cluster = aCluster((nodeId) => {
    if (isAway && nodeId === "2") throw unreachableError("b2");
  });
  const found = () => cluster.findLeaderForPartitions("t", [0, 1, 2, 3]);
  await cluster.findBroker({ nodeId: "1" });
  await expect(cluster.findBroker({ nodeId: "2" })).rejects.toThrow("ECONNREFUSED");
  expect(found()).toEqual({ 1: [0] });
  vi.advanceTimersByTime(1_000);
  expect(found()).toEqual({ 1: [0], 2: [1, 3] });
  // That was the one that tries.
  expect(found()).toEqual({ 1: [0] });
  isAway = false;
  await cluster.findBroker({ nodeId: "2" });
  expect(found()).toEqual({ 1: [0], 2: [1, 3] });
});

test("a broker that can be reached, and fails otherwise, is asked on", async () => {
  const cluster = aCluster(() => {
    throw protocolError("TOPIC_AUTHORIZATION_FAILED");
  });
  await expect(cluster.findBroker({ nodeId: "1" })).rejects.toThrow();
  expect(cluster.findLeaderForPartitions("t", [0])).toEqual({ 1: [0] });
});

test("regression: a topic of which no leader is known has no offsets: a consumer that had committed none there crashed time and again", async () => {
  const cluster = aCluster(() => {});
  expect(
    await cluster.fetchTopicsOffset([
      { topic: "t", partitions: [{ partition: 2 }], fromBeginning: true },
    ]),
  ).toEqual([{ topic: "t", partitions: [] }]);
});
