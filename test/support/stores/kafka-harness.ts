import { randomBytes } from "node:crypto";
import type { Admin } from "kafkajs";
import { openKafkaLog } from "../../../src/adapters/kafka/kafka-log.ts";
import type { KafkaLogOptions } from "../../../src/adapters/kafka/kafka-options.ts";
import { Kafka, logLevel } from "../../../src/adapters/kafka/kafkajs.ts";
import type { Log, NewRecord } from "../../../src/domain/log.ts";
import type { Logger } from "../../../src/domain/logger.ts";
import type { LogHarness, LogHarnessKind } from "../../conformance/log/harness.ts";
import { waitFor } from "../wait-for.ts";

export const quietLogger: Logger = {
  debug: () => {},
  info: () => {},
  warn: () => {},
  error: () => {},
  child: () => quietLogger,
};

/** Returns a unique topic prefix: tests share brokers, never topics. */
export function freshPrefix(): string {
  return `t${randomBytes(5).toString("hex")}.`;
}

export function openTestKafkaLog(
  brokers: readonly string[],
  options: Partial<KafkaLogOptions> = {},
): Promise<Log> {
  return openKafkaLog({
    connection: { brokers, clientId: "relay-test" },
    topicPrefix: freshPrefix(),
    partitions: 4,
    replicationFactor: null,
    maxRecordBytes: 13 * 1024 * 1024,
    retentionMs: 86_400_000,
    logger: quietLogger,
    sessionTimeoutMs: 6_000,
    metadataMaxAgeMs: 2_000,
    ...options,
  });
}

export function kafkaHarness(name: string, brokers: () => readonly string[]): LogHarnessKind {
  return {
    name,
    partitions: 4,
    deadlineMs: 20_000,
    unsupported: {
      sync: "the brokers sync",
      trimming: "the brokers trim, by retention",
    },
    make: async (): Promise<LogHarness> => {
      const topicPrefix = freshPrefix();
      const logs = new Set<Log>();
      return {
        open: async (options) => {
          const log = await openTestKafkaLog(brokers(), { topicPrefix, ...options });
          logs.add(log);
          return log;
        },
        crash: async (log) => log[Symbol.asyncDispose](),
        [Symbol.asyncDispose]: async () => {
          for (const log of logs) await log[Symbol.asyncDispose]();
        },
      };
    },
  };
}

/** Calls `work` with a connection of an operator. */
export async function withAdmin<T>(
  brokers: readonly string[],
  work: (admin: Admin) => Promise<T>,
): Promise<T> {
  const admin = new Kafka({ brokers: [...brokers], logLevel: logLevel.NOTHING }).admin();
  try {
    await admin.connect();
    return await work(admin);
  } finally {
    await admin.disconnect();
  }
}

/** Appends a record again and again until it is taken, as a sender does while its leader moves. */
export async function appendUntilTaken(
  log: Log,
  record: NewRecord,
  deadlineMs: number,
): Promise<void> {
  const isTaken = () =>
    log.append([record]).then(
      () => true,
      () => false,
    );
  await waitFor("the record", isTaken, deadlineMs, 100);
}
