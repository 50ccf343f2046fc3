import type { Admin } from "kafkajs";
import { expect, test } from "vitest";
import { ensureTopics } from "../../../src/adapters/kafka/topics.ts";
import { TOPICS } from "../../../src/domain/log.ts";
import { makeSilentLogger } from "../../support/silent-logger.ts";

const logger = makeSilentLogger();

test("regression: a start that finds new topics without leaders says which and what to do: only that topics do not become ready", async () => {
  const admin: Partial<Admin> = {
    listTopics: async () => [],
    describeCluster: async () => ({ brokers: [{}], controller: 1, clusterId: "c" }) as never,
    createTopics: async () => true,
    fetchTopicMetadata: async () =>
      ({
        topics: TOPICS.map((name) => ({
          name,
          partitions: [{ partitionId: 0, leader: name === "events" ? -1 : 1, replicas: [1] }],
        })),
      }) as never,
    fetchTopicOffsets: async () => [],
  };
  const options = {
    connection: { brokers: ["b:9092"], clientId: "t" },
    topicPrefix: "",
    partitions: 1,
    replicationFactor: 1,
    maxRecordBytes: 1_000,
    retentionMs: 86_400_000,
    logger,
  };
  await expect(ensureTopics(admin as Admin, options, logger)).rejects.toThrow(
    /events.*has no leader.*start again once the brokers have caught up/,
  );
}, 30_000);
