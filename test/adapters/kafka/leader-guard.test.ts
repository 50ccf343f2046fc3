import { createRequire } from "node:module";
import { afterEach, expect, test, vi } from "vitest";
import { guardLeaders } from "../../../src/adapters/kafka/guards/leader-guard.ts";
import { fakeBrokerPool } from "../../support/broker-pool-fake.ts";
import { unreachableError } from "../../support/group-fake.ts";

afterEach(() => void vi.useRealTimers());

/** The leader of each partition; partition 2 has none. */
const LEADERS = [1, 2, -1, 2];

function aCluster(connect: (nodeId: string) => void) {
  vi.useFakeTimers({ toFake: ["performance", "setTimeout", "clearTimeout"] });
  guardLeaders();
  guardLeaders();
  const Cluster = createRequire(import.meta.url)("kafkajs/src/cluster/index.js");
  const cluster = Object.create(Cluster.prototype);
  cluster.brokerPool = fakeBrokerPool(connect);
  cluster.brokerPool.metadata.topicMetadata = [
    {
      topic: "t",
      partitionMetadata: LEADERS.map((leader, partitionId) => ({ partitionId, leader })),
    },
  ];
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

test("regression: what a broker leads that cannot be reached is left out until it can be: nothing was written while it was away", async () => {
  let isGone = true;
  const cluster = aCluster((nodeId) => {
    if (isGone && nodeId === "2") throw unreachableError("b2");
  });
  const found = () => cluster.findLeaderForPartitions("t", [0, 1, 2, 3]);
  await expect(cluster.findBroker({ nodeId: "2" })).rejects.toThrow("ECONNREFUSED");
  expect(found()).toEqual({ 1: [0] });
  await vi.advanceTimersByTimeAsync(3_500);
  expect(found()).toEqual({ 1: [0] });
  isGone = false;
  await vi.advanceTimersByTimeAsync(1_000);
  expect(found()).toEqual({ 1: [0], 2: [1, 3] });
});

test("regression: offsets are told of those whose leaders answer: a new owner waited for all of them until the last was back", async () => {
  const asked: unknown[] = [];
  const listOffsets = async ({ topics }: { topics: readonly object[] }) => {
    asked.push(topics);
    return { responses: [{ topic: "t", partitions: [{ partition: 0, offset: "7" }] }] };
  };
  const cluster = aCluster((nodeId) => {
    if (nodeId === "2") throw unreachableError("b2");
  });
  cluster.brokerPool.brokers[1].listOffsets = listOffsets;
  const partitions = [0, 1, 2].map((partition) => ({ partition }));
  expect(
    await cluster.fetchTopicsOffset([{ topic: "t", partitions, fromBeginning: true }]),
  ).toEqual([{ topic: "t", partitions: [{ partition: 0, offset: "7" }] }]);
});

test("regression: a partition that is not known makes the metadata old, once a second: records for one that another process had made were refused for half a minute", () => {
  const cluster = aCluster(() => {});
  const isOld = () => {
    cluster.findLeaderForPartitions("t", [0, 7]);
    const { metadataExpireAt } = cluster.brokerPool;
    cluster.brokerPool.metadataExpireAt = 1;
    return metadataExpireAt === null;
  };
  expect([isOld(), isOld()]).toEqual([true, false]);
  vi.advanceTimersByTime(1_000);
  expect(isOld()).toBe(true);
});

test("regression: a topic of which no leader is known has no offsets: a consumer that had committed none there crashed time and again", async () => {
  const cluster = aCluster(() => {});
  expect(
    await cluster.fetchTopicsOffset([
      { topic: "t", partitions: [{ partition: 2 }], fromBeginning: true },
    ]),
  ).toEqual([{ topic: "t", partitions: [] }]);
});
