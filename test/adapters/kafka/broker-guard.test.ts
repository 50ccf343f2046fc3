import { createRequire } from "node:module";
import { expect, test } from "vitest";
import { guardBroker } from "../../../src/adapters/kafka/guards/broker-guard.ts";

interface Asked {
  readonly response: { readonly parse: (data: unknown) => Promise<unknown> };
}

const LEADER_NOT_AVAILABLE = 5;
const partition = (partitionId: number, leader = 1) => ({
  partitionId,
  partitionErrorCode: leader < 0 ? LEADER_NOT_AVAILABLE : 0,
  leader,
});
const answer = (topicErrorCode: number) => ({
  brokers: [{ nodeId: 1 }],
  topicMetadata: [
    { topic: "ours", topicErrorCode: 0, partitionMetadata: [partition(0)] },
    {
      topic: "another team's",
      topicErrorCode,
      partitionMetadata: [partition(0, -1), partition(1)],
    },
  ],
});

/** Makes a broker that gives this answer when asked for metadata. */
function aBroker(told: ReturnType<typeof answer>) {
  guardBroker();
  guardBroker();
  const Broker = createRequire(import.meta.url)("kafkajs/src/broker/index.js");
  const logger = { debug: () => {}, namespace: () => logger };
  const broker = new Broker({
    logger,
    connectionPool: { send: ({ response }: Asked) => response.parse(told) },
  });
  broker.lookupRequest = (_key: number, versions: { protocol: (at: object) => unknown }) =>
    versions.protocol({ version: 6 });
  return broker;
}

test("a topic without a leader that nobody named keeps nobody from starting: not even the brokers could be counted", async () => {
  expect(await aBroker(answer(LEADER_NOT_AVAILABLE)).metadata([])).toEqual({
    brokers: [{ nodeId: 1 }],
    topicMetadata: [
      { topic: "ours", topicErrorCode: 0, partitionMetadata: [partition(0)] },
      { topic: "another team's", topicErrorCode: 0, partitionMetadata: [partition(1)] },
    ],
  });
});

test("regression: a partition without a leader is told of as one beside those that have theirs: nothing was known of any", async () => {
  const { topicMetadata } = await aBroker(answer(0)).metadata(["ours", "another team's"]);
  expect(topicMetadata[1].partitionMetadata).toEqual([
    { partitionId: 0, partitionErrorCode: 0, leader: -1 },
    partition(1),
  ]);
});

test("a topic that is still being made is asked for again", async () => {
  await expect(
    aBroker(answer(LEADER_NOT_AVAILABLE)).metadata(["another team's"]),
  ).rejects.toMatchObject({ type: "LEADER_NOT_AVAILABLE" });
});
