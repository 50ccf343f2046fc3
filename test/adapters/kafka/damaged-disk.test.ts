import { openSync, closeSync, readFileSync, readdirSync, writeSync } from "node:fs";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import type { LogRecord } from "../../../src/domain/log.ts";
import { collect } from "../../support/log-consumer.ts";
import { makeSilentLogger } from "../../support/silent-logger.ts";
import { freshPrefix, openTestKafkaLog } from "../../support/stores/kafka-harness.ts";
import { startLocalKafka, type LocalKafka } from "../../support/stores/kafka-local.ts";
import { skipOrFail } from "../../support/stores/skip-or-fail.ts";
import { until } from "../../support/wait-for.ts";

const DEADLINE_MS = 30_000;
const started: LocalKafka | Error = await startLocalKafka(1).catch((error: Error) => error);

describe.skipIf(started instanceof Error && skipOrFail("a local Kafka broker", started))(
  "a broker whose disk changes what it holds",
  { timeout: 90_000 },
  () => {
    const kafka = started as LocalKafka;
    afterAll(() => kafka[Symbol.asyncDispose]());

    /** Changes one bit of the first place where `bytes` stand in the partition's files, under the running broker. */
    const changeABit = (topic: string, bytes: string): void => {
      const dir = join(kafka.dataDir(1), `${topic}-0`);
      for (const name of readdirSync(dir).filter((file) => file.endsWith(".log"))) {
        const at = readFileSync(join(dir, name)).indexOf(bytes);
        if (at < 0) continue;
        const file = openSync(join(dir, name), "r+");
        writeSync(file, Buffer.from([bytes.charCodeAt(0) ^ 1]), 0, 1, at);
        closeSync(file);
        return;
      }
      throw new Error(`${bytes} is not in ${dir}`);
    };

    test("regression: records that were changed there are left out and told of once, and those behind them read on: they were handed out as they were found", async () => {
      const topicPrefix = freshPrefix();
      const told: object[] = [];
      const counted: unknown[] = [];
      const logger = makeSilentLogger((_level, message, fields) => {
        if (message === "log.records_lost") told.push(fields);
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
      changeABit(`${topicPrefix}events`, "value 2");
      changeABit(`${topicPrefix}events`, "value 5");

      const values = (records: readonly LogRecord[]) =>
        records.map(({ value }) => Buffer.from(value).toString());
      await using reader = await collect(log, {
        group: "g",
        topics: ["events"],
        deadlineMs: DEADLINE_MS,
      });
      await reader.received(2);
      await until(() => told.length === 2, "both are told of", DEADLINE_MS);
      await append("value 6");
      await reader.received(3);
      expect(values(reader.records)).toEqual(["value 0", "value 4", "value 6"]);
      expect(reader.errors).toEqual([]);

      const owner = reader.owned.get(0)!;
      const read: LogRecord[] = [];
      for await (const records of owner.read("events", 0)) read.push(...records);
      expect(values(read)).toEqual(["value 0", "value 4", "value 6"]);
      const why = "they are damaged on a broker's disk, and left out";
      const place = { group: "g", topic: "events", partition: 0 };
      expect(told).toEqual([
        { ...place, from: 1, to: 4, count: 3, why },
        { ...place, from: 5, to: 6, count: 1, why },
      ]);
      expect(counted).toEqual([
        ["events", 3],
        ["events", 1],
      ]);
    });
  },
);
