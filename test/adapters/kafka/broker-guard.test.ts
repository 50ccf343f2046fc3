import { createRequire } from "node:module";
import { describe, expect, test } from "vitest";
import { guardBroker } from "../../../src/adapters/kafka/guards/broker-guard.ts";
import { isDoubtful } from "../../../src/adapters/kafka/guards/doubtful-leaders.ts";

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

/** Makes a broker that gives this answer, to a request of this version of the protocol. */
function aBroker(told: object, version = 6) {
  guardBroker();
  guardBroker();
  const Broker = createRequire(import.meta.url)("kafkajs/src/broker/index.js");
  const logger = { debug: () => {}, namespace: () => logger };
  const broker = new Broker({
    logger,
    connectionPool: { send: ({ response }: Asked) => response.parse(told) },
  });
  broker.lookupRequest = (_key: number, versions: { protocol: (at: object) => unknown }) =>
    versions.protocol({ version });
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

const produced = (...errorCodes: number[]) => ({
  topics: [
    {
      topicName: "t",
      partitions: errorCodes.map((errorCode, index) => ({ partition: index, errorCode })),
    },
  ],
});

test.each([0, 7, 10, 18, 19, 20, 29, 32, 44])(
  "error code %d of one partition is told of beside what the others took: the client would send all of it again",
  async (errorCode) => {
    const told = produced(0, errorCode);
    expect(await aBroker(told, 7).produce({ topicData: [] })).toBe(told);
  },
);

test("a broker is in doubt from an answer that replicas did not confirm in time until one without", async () => {
  const told = produced(0);
  const broker = aBroker(told, 7);
  const inDoubt: boolean[] = [];
  for (const errorCode of [0, 7, 19, 7, 0]) {
    told.topics[0]!.partitions[0]!.errorCode = errorCode;
    await broker.produce({ topicData: [] });
    inDoubt.push(isDoubtful(broker));
  }
  expect(inDoubt).toEqual([false, true, false, true, false]);
});

describe.each([
  ["LEADER_NOT_AVAILABLE", 5],
  ["NOT_LEADER_FOR_PARTITION", 6],
  ["KAFKA_STORAGE_ERROR", 56],
])("what the client itself mends by asking again (%s)", (type, errorCode) => {
  test("is left to it where that is said of all partitions", async () => {
    const answered = aBroker(produced(errorCode, errorCode), 7).produce({ topicData: [] });
    await expect(answered).rejects.toMatchObject({ type });
  });

  test.each([0, 10])(
    "regression: is told of beside error code %d of another partition: the client sent all of it again, and what was taken was written twice",
    async (other) => {
      const told = produced(other, errorCode);
      expect(await aBroker(told, 7).produce({ topicData: [] })).toBe(told);
    },
  );
});
