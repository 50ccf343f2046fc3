import { expect, describe, test } from "vitest";
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

const OFFSETS_PARTITIONS = 4;
const DEADLINE_MS = 60_000;
/** Longer than any pause of a busy machine: a member that is silent for this long loses its partitions by right. */
const SESSION_TIMEOUT_MS = 20_000;
const jars: string | Error = await kafkaJars().catch((error: Error) => error);

/** Returns the coordinator that the brokers choose: the leader of the partition of the group's offsets, by Java's hash of its name. */
async function coordinatorOf(groupId: string, brokers: readonly string[]): Promise<number> {
  const hash = Buffer.from(groupId).reduce((sum, byte) => (sum * 31 + byte) | 0, 0);
  return withAdmin(brokers, async (admin) => {
    const { topics } = await admin.fetchTopicMetadata({ topics: ["__consumer_offsets"] });
    const wanted = (hash & 0x7fffffff) % OFFSETS_PARTITIONS;
    const found = topics[0]?.partitions.find(({ partitionId }) => partitionId === wanted);
    return found?.leader ?? -1;
  });
}

describe.skipIf(jars instanceof Error && skipOrFail("three local Kafka brokers", jars))(
  "a group whose coordinator dies",
  { timeout: DEADLINE_MS * 4 },
  () => {
    test("regression: keeps its partitions, and reads on once there is another: it was asked until it was given up, and joined anew", async () => {
      await using kafka = await startLocalKafka(3);
      const topicPrefix = freshPrefix();
      await using log = await openTestKafkaLog(kafka.brokers, {
        topicPrefix,
        logger: quietLogger,
        sessionTimeoutMs: SESSION_TIMEOUT_MS,
      });
      const seen: string[] = [];
      const assigned: OwnedPartition[] = [];
      let revoked = 0;
      await using _consumer = await log.consume({
        group: "g",
        topics: ["events"],
        onAssigned: async (partition) => void assigned.push(partition),
        onRevoked: async () => void (revoked += 1),
        onRecords: (_partition, _topic, records) =>
          void seen.push(...records.map(({ value }) => Buffer.from(value).toString())),
        onError: () => {},
      });
      await until(() => assigned.length === log.partitions, "all partitions", DEADLINE_MS);

      const coordinator = await coordinatorOf(`${topicPrefix}g`, kafka.brokers);
      expect(kafka.isRunning(coordinator)).toBe(true);
      await kafka.kill(coordinator);
      const killedMs = performance.now();

      const texts = Array.from({ length: log.partitions }, (_, partition) => `after ${partition}`);
      for (const [partition, text] of texts.entries()) {
        const record = { topic: "events", key: "k", partition, value: Buffer.from(text) } as const;
        await appendUntilTaken(log, record, DEADLINE_MS);
      }
      await until(() => texts.every((text) => seen.includes(text)), "all records", DEADLINE_MS);
      // What the one that died had answered is worth nothing by then: who still owns its partitions was answered by the next one.
      const isAnsweredByNext = () =>
        performance.now() > killedMs + SESSION_TIMEOUT_MS &&
        assigned.every((partition) => partition.owned());
      await until(() => revoked > 0 || isAnsweredByNext(), "the next coordinator", DEADLINE_MS);
      expect({ assigned: assigned.length, revoked }).toEqual({
        assigned: log.partitions,
        revoked: 0,
      });
    });
  },
);
