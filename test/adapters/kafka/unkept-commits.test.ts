import { afterAll, describe, test } from "vitest";
import { ConfigResourceTypes } from "../../../src/adapters/kafka/kafkajs.ts";
import type { OwnedPartition } from "../../../src/domain/log.ts";
import { openTestKafkaLog, withAdmin } from "../../support/stores/kafka-harness.ts";
import { startLocalKafka, type LocalKafka } from "../../support/stores/kafka-local.ts";
import { skipOrFail } from "../../support/stores/skip-or-fail.ts";
import { until } from "../../support/wait-for.ts";

const DEADLINE_MS = 60_000;
// It needs its own broker, which keeps no commits for a while.
const started: LocalKafka | Error = await startLocalKafka(1).catch((error: Error) => error);

describe.skipIf(started instanceof Error && skipOrFail("a local Kafka broker", started))(
  "a group whose coordinator answers heartbeats and keeps no commits",
  { timeout: DEADLINE_MS * 3 },
  () => {
    const kafka = started as LocalKafka;
    afterAll(() => kafka[Symbol.asyncDispose]());

    /** Lets it write them or not: one that is cut off from the brokers which have its replicas cannot, either. */
    const keepsCommits = (does: boolean): Promise<unknown> =>
      withAdmin(kafka.brokers, (admin) =>
        admin.alterConfigs({
          validateOnly: false,
          resources: [
            {
              type: ConfigResourceTypes.TOPIC,
              name: "__consumer_offsets",
              configEntries: [
                { name: "cleanup.policy", value: "compact" },
                { name: "max.message.bytes", value: does ? "1000000" : "10" },
              ],
            },
          ],
        }),
      );

    test("regression: its members own nothing once the time of a session has passed, though nothing is to be committed, and own all again afterwards: another broker may have become the coordinator, and given the partitions to others", async () => {
      await using log = await openTestKafkaLog(kafka.brokers);
      const assigned = new Set<OwnedPartition>();
      await using _consumer = await log.consume({
        group: "g",
        topics: ["events"],
        onAssigned: async (partition) => {
          await partition.commit([{ topic: "events", offset: 0, metadata: "its owner" }]);
          assigned.add(partition);
        },
        onRevoked: async (partition) => void assigned.delete(partition),
        onRecords: () => {},
        onError: () => {},
      });
      const owned = () => [...assigned].filter((partition) => partition.owned()).length;
      await until(() => owned() === log.partitions, "all partitions", DEADLINE_MS);
      await keepsCommits(false);
      await until(() => owned() === 0, "the end of the session", DEADLINE_MS / 2);
      await keepsCommits(true);
      await until(() => owned() === log.partitions, "partitions owned again", DEADLINE_MS);
    });
  },
);
