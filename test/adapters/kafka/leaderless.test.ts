import { afterAll, describe, expect, test } from "vitest";
import {
  TOPICS,
  type Log,
  type LogError,
  type LogRecord,
  type OwnedPartition,
} from "../../../src/domain/log.ts";
import { startLocalKafka, type LocalKafka } from "../../support/stores/kafka-local.ts";
import { freshPrefix, openTestKafkaLog, withAdmin } from "../../support/stores/kafka-harness.ts";
import { skipOrFail } from "../../support/stores/skip-or-fail.ts";
import { untilHeld, waitFor } from "../../support/wait-for.ts";

const started: LocalKafka | Error = await startLocalKafka(3).catch((error: Error) => error);
const PARTITIONS = 6;
const numbers = Array.from({ length: PARTITIONS }, (_, number) => number);
const DEADLINE_MS = 60_000;
/** Twice as long as it takes the brokers to give up one that died. */
const HELD_MS = 8_000;

/** Returns the partition numbers that `gone` leads for `events`, and those that it leads for no topic. */
async function partitionsBy(kafka: LocalKafka, prefix: string, gone: number) {
  const { topics } = await withAdmin(kafka.brokers, (admin) =>
    admin.fetchTopicMetadata({
      topics: TOPICS.map((topic) => prefix + topic),
    }),
  );
  const ledBy = (name: string) =>
    topics
      .find((topic) => topic.name === prefix + name)!
      .partitions.filter(({ leader }) => leader === gone)
      .map(({ partitionId }) => partitionId);
  return {
    events: numbers.filter((number) => ledBy("events").includes(number)),
    whole: numbers.filter((number) => TOPICS.every((topic) => !ledBy(topic).includes(number))),
  };
}

const record = (text: string, partition: number) =>
  ({ topic: "events", key: "k", partition, value: Buffer.from(text) }) as const;

describe.skipIf(started instanceof Error && skipOrFail("three local Kafka brokers", started))(
  "regression: partitions whose only broker is gone: all others stood still as well until it was back, writing and reading",
  { timeout: DEADLINE_MS * 3 },
  () => {
    const kafka = started as LocalKafka;
    afterAll(() => kafka[Symbol.asyncDispose]());

    /** Collects the texts that a group reads. */
    const reading = async (log: Log) => {
      const seen: LogRecord[] = [];
      const owned = new Map<number, OwnedPartition>();
      await log.consume({
        group: "g",
        topics: ["events"],
        onAssigned: async (partition) => void owned.set(partition.partition, partition),
        onRevoked: async () => {},
        onRecords: (_partition, _topic, records) => void seen.push(...records),
        onError: () => {},
      });
      const texts = () => seen.map(({ value }) => Buffer.from(value).toString());
      return { owned, texts };
    };

    test("the others are written and read, by those that run and by those that start meanwhile, and nothing is lost when it is back", async () => {
      const topicPrefix = freshPrefix();
      const options = { topicPrefix, partitions: PARTITIONS, replicationFactor: 1 };
      await using log = await openTestKafkaLog(kafka.brokers, options);
      const { owned, texts } = await reading(log);
      await log.append(numbers.map((number) => record(`before ${number}`, number)));
      await waitFor("all", () => texts().length === PARTITIONS, DEADLINE_MS);
      // Not the first broker, which is the one that clients ask first.
      const gone = 3;
      const { events, whole } = await partitionsBy(kafka, topicPrefix, gone);
      const led = numbers.filter((number) => !events.includes(number));
      expect(events).not.toEqual([]);
      expect(led).not.toEqual([]);
      // The group has committed nothing where the leader goes away, as if nothing had come there yet.
      for (const number of led) await owned.get(number)!.commit([{ topic: "events", offset: 1 }]);

      await kafka.kill(gone);
      const mixed = (text: string): Promise<LogError | null> =>
        log.append(numbers.map((number) => record(`${text} ${number}`, number))).then(
          () => null,
          (failure: LogError) => failure,
        );
      // The first failures may be connections that ended midway.
      await waitFor(
        "a call of which the partitions with a leader are written",
        async () => {
          const error = await mixed("meanwhile");
          return (
            error?.code === "log_unavailable" &&
            error.appended !== undefined &&
            led.every((number) => error.appended![number] !== null)
          );
        },
        DEADLINE_MS,
      );
      // This holds for as long as it is gone, also once the brokers have given it up.
      let calls = 0;
      await untilHeld(
        "a call of which the partitions with a leader are written, and no others",
        async () => {
          calls += 1;
          const error = await mixed(`call ${calls}`);
          expect(error).not.toBeNull();
          for (const number of events) expect(error!.appended?.[number] ?? null).toBeNull();
          return (
            error!.code === "log_unavailable" &&
            led.every((number) => (error!.appended?.[number] ?? null) !== null)
          );
        },
        HELD_MS,
        DEADLINE_MS,
      );
      const last = `call ${calls}`;
      await waitFor(
        "what was written",
        () => led.every((number) => texts().includes(`${last} ${number}`)),
        DEADLINE_MS,
      );

      // A process can start meanwhile.
      await using second = await openTestKafkaLog(kafka.brokers, options);
      await second.append(led.map((number) => record(`second ${number}`, number)));
      const other = await reading(second);
      const seen = () => [...texts(), ...other.texts()];
      await second.append(whole.map((number) => record(`third ${number}`, number)));
      await waitFor(
        "what was written by the second",
        () =>
          whole.every((number) => seen().includes(`third ${number}`)) &&
          whole.every((number) => seen().includes(`second ${number}`)),
        DEADLINE_MS,
      );

      await kafka.restart(gone);
      await waitFor(
        "a call of which all is written",
        async () => (await mixed("after")) === null,
        DEADLINE_MS,
      );
      await waitFor(
        "all of it",
        () => numbers.every((number) => seen().includes(`after ${number}`)),
        DEADLINE_MS,
      );
      // What was reported as not written is not there.
      for (const number of events) {
        expect(seen()).not.toContain(`${last} ${number}`);
        expect(seen()).toContain(`before ${number}`);
      }
    });
  },
);
