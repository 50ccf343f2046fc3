import { expect, describe, test } from "vitest";
import { Kafka, logLevel } from "../../../src/adapters/kafka/kafkajs.ts";
import { freshPrefix, openTestKafkaLog, quietLogger } from "../../support/stores/kafka-harness.ts";
import { startLocalKafka, type LocalKafka } from "../../support/stores/kafka-local.ts";
import { skipOrFail } from "../../support/stores/skip-or-fail.ts";
import { until } from "../../support/undici-receivers.ts";

const OFFSETS_PARTITIONS = 4;
const DEADLINE_MS = 60_000;
const started: LocalKafka | Error = await startLocalKafka(3).catch((error: Error) => error);

/** As the brokers choose it: the leader of the partition that the group's offsets are in, by Java's hash of its name. */
async function coordinatorOf(groupId: string, brokers: readonly string[]): Promise<number> {
  const hash = Buffer.from(groupId).reduce((sum, byte) => (sum * 31 + byte) | 0, 0);
  const admin = new Kafka({ brokers: [...brokers], logLevel: logLevel.NOTHING }).admin();
  await admin.connect();
  const { topics } = await admin.fetchTopicMetadata({ topics: ["__consumer_offsets"] });
  await admin.disconnect();
  const wanted = (hash & 0x7fffffff) % OFFSETS_PARTITIONS;
  const found = topics[0]?.partitions.find(({ partitionId }) => partitionId === wanted);
  return found?.leader ?? -1;
}

describe.skipIf(started instanceof Error && skipOrFail("three local Kafka brokers", started))(
  "a group whose coordinator dies",
  { timeout: DEADLINE_MS * 3 },
  () => {
    test("regression: keeps its partitions, and reads on once there is another: it was asked until it was given up, and joined anew", async () => {
      await using kafka = started as LocalKafka;
      const topicPrefix = freshPrefix();
      await using log = await openTestKafkaLog(kafka.brokers, {
        topicPrefix,
        logger: quietLogger,
        sessionTimeoutMs: 10_000,
      });
      const seen: string[] = [];
      let assigned = 0;
      let revoked = 0;
      await using _consumer = await log.consume({
        group: "g",
        topics: ["events"],
        onAssigned: async () => void (assigned += 1),
        onRevoked: async () => void (revoked += 1),
        onRecords: (_partition, _topic, records) =>
          void seen.push(...records.map(({ value }) => Buffer.from(value).toString())),
        onError: () => {},
      });
      await until(() => assigned === log.partitions, "all partitions", DEADLINE_MS);

      await kafka.kill(await coordinatorOf(`${topicPrefix}g`, kafka.brokers));
      const texts = Array.from({ length: log.partitions }, (_, partition) => `after ${partition}`);
      for (const [partition, text] of texts.entries()) {
        const record = { topic: "events", key: "k", partition, value: Buffer.from(text) } as const;
        const accepted = () =>
          log.append([record]).then(
            () => true,
            () => false,
          );
        while (!(await accepted())) await new Promise((resolve) => setTimeout(resolve, 100));
      }
      await until(() => texts.every((text) => seen.includes(text)), "all records", DEADLINE_MS);
      // Until then a coordinator that is gone was asked: eight times, over some ten seconds.
      const givenUpMs = performance.now() + 15_000;
      await until(() => revoked > 0 || performance.now() > givenUpMs, "the time", DEADLINE_MS);
      expect({ assigned, revoked }).toEqual({ assigned: log.partitions, revoked: 0 });
    });
  },
);
