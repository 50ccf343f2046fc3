import { closeSync, openSync, readFileSync, readdirSync, writeSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import type { LogRecord } from "../../../src/domain/log.ts";
import { collect } from "../../support/log-consumer.ts";
import { makeSilentLogger } from "../../support/silent-logger.ts";
import { freshPrefix, openTestKafkaLog, withAdmin } from "../../support/stores/kafka-harness.ts";
import { startLocalKafka, type LocalKafka } from "../../support/stores/kafka-local.ts";
import { skipOrFail } from "../../support/stores/skip-or-fail.ts";
import { until } from "../../support/wait-for.ts";

const DEADLINE_MS = 30_000;
const BROKERS = [1, 2, 3];
const started: LocalKafka | Error = await startLocalKafka(3).catch((error: Error) => error);

/** Brokers that have just made the topic of the groups' offsets may refuse a group once or twice: that says nothing of what they hold. */
function isLoading(error: Error): boolean {
  return (error as { readonly type?: unknown }).type === "GROUP_LOAD_IN_PROGRESS";
}

describe.skipIf(started instanceof Error && skipOrFail("three local Kafka brokers", started))(
  "brokers whose disks change what they hold",
  { timeout: 120_000 },
  () => {
    const kafka = started as LocalKafka;
    afterAll(() => kafka[Symbol.asyncDispose]());

    const leaderOf = async (topic: string): Promise<number> => {
      const { topics } = await withAdmin(kafka.brokers, (admin) =>
        admin.fetchTopicMetadata({ topics: [topic] }),
      );
      return topics[0]!.partitions[0]!.leader;
    };
    /** Changes one bit of the first place where `text` stands in the files of partition 0, under the running broker. */
    const changeABit = async (broker: number, topic: string, text: string): Promise<void> => {
      const dir = join(kafka.dataDir(broker), `${topic}-0`);
      const written = (): readonly [string, number] | undefined =>
        readdirSync(dir)
          .filter((name) => name.endsWith(".log"))
          .map((name) => [join(dir, name), readFileSync(join(dir, name)).indexOf(text)] as const)
          .find(([, at]) => at >= 0);
      await until(() => written() !== undefined, `${text} at broker ${broker}`, DEADLINE_MS);
      const [path, at] = written()!;
      const file = openSync(path, "r+");
      writeSync(file, Buffer.from([text.charCodeAt(0) ^ 1]), 0, 1, at);
      closeSync(file);
    };

    test("regression: records that are damaged at the leader are read from a copy, and those that no copy has whole are left out, told of once: they were handed out as they were found", async () => {
      const topicPrefix = freshPrefix();
      const topic = `${topicPrefix}events`;
      const told: [string, object][] = [];
      const counted: unknown[] = [];
      const logger = makeSilentLogger((_level, message, fields) => {
        if (message.startsWith("log.records_")) told.push([message, fields]);
      });
      const metrics = { lost: (...lost: unknown[]) => void counted.push(lost) };
      await using log = await openTestKafkaLog(kafka.brokers, {
        topicPrefix,
        partitions: 1,
        logger,
        metrics,
      });
      const append = (...values: string[]) =>
        log.append(
          values.map((value) => ({ topic: "events", key: "k", value: Buffer.from(value) })),
        );
      await append("value 0");
      await append("value 1", "value 2", "value 3");
      await append("value 4");
      await append("value 5");
      const leader = await leaderOf(topic);
      await changeABit(leader, topic, "value 2");
      for (const broker of BROKERS) await changeABit(broker, topic, "value 5");

      const values = (records: readonly LogRecord[]) =>
        records.map(({ value }) => Buffer.from(value).toString());
      await using reader = await collect(log, {
        group: "g",
        topics: ["events"],
        deadlineMs: DEADLINE_MS,
      });
      await reader.received(5);
      await append("value 6");
      await reader.received(6);
      const whole = [0, 1, 2, 3, 4, 6].map((number) => `value ${number}`);
      expect(values(reader.records)).toEqual(whole);
      expect(reader.records.map(({ offset }) => offset)).toEqual([0, 1, 2, 3, 4, 6]);
      expect(reader.errors.filter((error) => !isLoading(error))).toEqual([]);

      const read: LogRecord[] = [];
      for await (const records of reader.owned.get(0)!.read("events", 2)) read.push(...records);
      expect(values(read)).toEqual(whole.slice(2));
      const place = { group: "g", topic: "events", partition: 0 };
      const mended = {
        copy: expect.toSatisfy((broker: number) => broker !== leader && BROKERS.includes(broker)),
        mend: "they were read from another broker's copy: replace the disk of the partition's leader",
      };
      expect(told).toEqual([
        ["log.records_damaged", { ...place, from: 1, to: 4, ...mended }],
        [
          "log.records_lost",
          {
            ...place,
            from: 5,
            to: 6,
            count: 1,
            why: "they are damaged on the brokers' disks, and left out",
          },
        ],
      ]);
      expect(counted).toEqual([["events", 1]]);
    });
  },
);
