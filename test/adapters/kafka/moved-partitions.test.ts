import { describe, expect, test } from "vitest";
import type { OwnedPartition } from "../../../src/domain/log.ts";
import {
  appendUntilTaken,
  freshPrefix,
  openTestKafkaLog,
  quietLogger,
  withAdmin,
} from "../../support/stores/kafka-harness.ts";
import { kafkaJars } from "../../support/stores/kafka-jars.ts";
import { startLocalKafka } from "../../support/stores/kafka-local.ts";
import { skipOrFail } from "../../support/stores/skip-or-fail.ts";
import { until } from "../../support/wait-for.ts";

const DEADLINE_MS = 60_000;
const jars: string | Error = await kafkaJars().catch((error: Error) => error);

/** Moves each partition of a topic to the next of three brokers, as an operator does who adds or drains one. */
async function moveOn(topic: string, brokers: readonly string[]): Promise<void> {
  await withAdmin(brokers, async (admin) => {
    const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
    const partitionAssignment = topics
      .flatMap(({ partitions }) => partitions)
      .map(({ partitionId, leader }) => ({ partition: partitionId, replicas: [(leader % 3) + 1] }));
    await admin.alterPartitionReassignments({ topics: [{ topic, partitionAssignment }] });
    const asked = [{ topic, partitions: partitionAssignment.map(({ partition }) => partition) }];
    const isDone = async () =>
      (await admin.listPartitionReassignments({ topics: asked })).topics.length === 0;
    await until(isDone, "the partitions to move", DEADLINE_MS);
  });
}

describe.skipIf(jars instanceof Error && skipOrFail("three local Kafka brokers", jars))(
  "a group whose partitions move to other brokers",
  { timeout: DEADLINE_MS * 4 },
  () => {
    test("regression: keeps them and reads everything: it was joined again, which takes all partitions from all members", async () => {
      await using kafka = await startLocalKafka(3);
      const topicPrefix = freshPrefix();
      await using log = await openTestKafkaLog(kafka.brokers, {
        topicPrefix,
        replicationFactor: 1,
        logger: quietLogger,
        // Only what a refusal tells shows in time that a leader has moved.
        metadataMaxAgeMs: DEADLINE_MS,
        sessionTimeoutMs: 20_000,
      });
      const seen = new Set<string>();
      const assigned: OwnedPartition[] = [];
      let revoked = 0;
      await using _consumer = await log.consume({
        group: "g",
        topics: ["events"],
        onAssigned: async (partition) => void assigned.push(partition),
        onRevoked: async () => void (revoked += 1),
        onRecords: (_partition, _topic, records) => {
          for (const { value } of records) seen.add(Buffer.from(value).toString());
        },
        onError: () => {},
      });
      await until(() => assigned.length === log.partitions, "all partitions", DEADLINE_MS);

      const texts: string[] = [];
      for (const time of [1, 2, 3]) {
        await moveOn(`${topicPrefix}events`, kafka.brokers);
        for (let partition = 0; partition < log.partitions; partition += 1) {
          const text = `${partition} after move ${time}`;
          const record = {
            topic: "events",
            key: "k",
            partition,
            value: Buffer.from(text),
          } as const;
          await appendUntilTaken(log, record, DEADLINE_MS);
          texts.push(text);
        }
      }
      await until(() => texts.every((text) => seen.has(text)), "all records", DEADLINE_MS);
      expect({ assigned: assigned.length, revoked }).toEqual({
        assigned: log.partitions,
        revoked: 0,
      });
    });
  },
);
