import { createRequire } from "node:module";
import { expect, test } from "vitest";
import { guardBroker } from "../../../src/adapters/kafka/broker-guard.ts";

interface Asked {
  readonly response: { readonly parse: (data: unknown) => Promise<unknown> };
}

const LEADER_NOT_AVAILABLE = 5;
const partition = (partitionId: number, partitionErrorCode = 0) => ({
  partitionId,
  partitionErrorCode,
});
const ANSWER = {
  brokers: [{ nodeId: 1 }],
  topicMetadata: [
    { topic: "ours", topicErrorCode: 0, partitionMetadata: [partition(0)] },
    {
      topic: "another team's",
      topicErrorCode: LEADER_NOT_AVAILABLE,
      partitionMetadata: [partition(0, LEADER_NOT_AVAILABLE), partition(1)],
    },
  ],
};

test("a topic without a leader that nobody named keeps nobody from starting: not even the brokers could be counted", async () => {
  guardBroker();
  guardBroker();
  const Broker = createRequire(import.meta.url)("kafkajs/src/broker/index.js");
  const logger = { debug: () => {}, namespace: () => logger };
  const broker = new Broker({
    logger,
    connectionPool: { send: ({ response }: Asked) => response.parse(ANSWER) },
  });
  broker.lookupRequest = (_key: number, versions: { protocol: (at: object) => unknown }) =>
    versions.protocol({ version: 6 });
  expect(await broker.metadata([])).toEqual({
    brokers: [{ nodeId: 1 }],
    topicMetadata: [
      { topic: "ours", topicErrorCode: 0, partitionMetadata: [partition(0)] },
      { topic: "another team's", topicErrorCode: 0, partitionMetadata: [partition(1)] },
    ],
  });
  await expect(broker.metadata(["another team's"])).rejects.toMatchObject({
    type: "LEADER_NOT_AVAILABLE",
  });
});
