import { setTimeout as sleep } from "node:timers/promises";
import type { Admin, Kafka } from "kafkajs";
import {
  LogError,
  TOPICS,
  type ConsumerOptions,
  type Log,
  type LogConsumer,
  type NewRecord,
  type Position,
  type Topic,
} from "../../domain/log.ts";
import { committedMetadata } from "./consume/committed-metadata.ts";
import { KafkaConsumer } from "./consume/kafka-consumer.ts";
import { makeLossTellers } from "./consume/lost-records.ts";
import { ensureTopics } from "./ensure-topics.ts";
import { explainRefusal } from "./explain-refusal.ts";
import { largestRecordBytes } from "./find-topics.ts";
import { guardKafkajs } from "./guards/guard-kafkajs.ts";
import { makeKafkaClient, type ClientLimits } from "./kafka-client.ts";
import {
  DEFAULT_METADATA_MAX_AGE_MS,
  DEFAULT_SESSION_TIMEOUT_MS,
  topicName,
  type KafkaLogOptions,
} from "./kafka-options.ts";
import { OpenSockets } from "./open-sockets.ts";
import { KafkaProducer } from "./produce/kafka-producer.ts";
import { TopicWatch } from "./topic-watch.ts";
import { WireWatch } from "./wire-watch.ts";

const QUICK: ClientLimits = {
  connectionTimeout: 1_000,
  requestTimeout: 3_000,
  retry: { initialRetryTime: 100, maxRetryTime: 500, retries: 4 },
};
/** Making topics on a cold broker takes time. */
const PATIENT: ClientLimits = { ...QUICK, requestTimeout: 30_000 };
const OF_CONSUMERS: ClientLimits = { connectionTimeout: 2_000, requestTimeout: 10_000 };
/** Long enough for a broker to die and another controller to be elected. */
const OPEN_WITHIN_MS = 10_000;
const OPEN_RETRY_MS = 500;
const AWAY_CODES: ReadonlySet<string> = new Set(["ECONNREFUSED", "ECONNRESET", "ETIMEDOUT"]);

/**
 * Opens the log port on Kafka: connects, makes missing topics and checks the rest. Waits some ten seconds for brokers that are
 * away. Consumers that were not disposed are disposed with it.
 * @throws {LogError} that says what is wrong
 */
export async function openKafkaLog(options: KafkaLogOptions): Promise<Log> {
  guardKafkajs();
  const now = options.monotonic ?? (() => performance.now());
  const untilMs = now() + OPEN_WITHIN_MS;
  for (;;) {
    const log = new KafkaLog(options);
    try {
      await log.open();
      return log;
    } catch (error) {
      await log[Symbol.asyncDispose]();
      if (error instanceof LogError) throw error;
      if (!isAway(error) || now() >= untilMs) throw unusable(options, error);
      options.logger.warn({ err: (error as Error).message }, "log.brokers_awaited");
    }
    await sleep(OPEN_RETRY_MS);
  }
}

/** Returns whether no broker answered, or one went away while being asked: unlike a bad certificate or password, this may pass. */
function isAway(error: unknown): boolean {
  const { name, code, cause } = error as {
    readonly name?: string;
    readonly code?: string;
    readonly cause?: unknown;
  };
  if (name === "KafkaJSConnectionClosedError" || name === "KafkaJSRequestTimeoutError") return true;
  if (code !== undefined && AWAY_CODES.has(code)) return true;
  return cause !== undefined && cause !== null && isAway(cause);
}

function unusable(options: KafkaLogOptions, error: unknown): LogError {
  return new LogError("log_unavailable", explainRefusal(options, error as Error), { cause: error });
}

class KafkaLog implements Log {
  /** Each broker takes only what it leads. */
  readonly writesWhole = false;
  readonly #options: KafkaLogOptions;
  readonly #producer: KafkaProducer;
  readonly #consumerClient: Kafka;
  readonly #admin: Admin;
  readonly #consumers = new Set<LogConsumer>();
  readonly #monotonic: () => number;
  readonly #lossesOf: ReturnType<typeof makeLossTellers>;
  readonly #sockets = new OpenSockets();
  readonly #topics: TopicWatch;
  #closed = false;

  constructor(options: KafkaLogOptions) {
    this.#options = options;
    this.#monotonic = options.monotonic ?? (() => performance.now());
    this.#lossesOf = makeLossTellers(options);
    // Quick, since a frozen broker is given up only once a request has timed out: until then the partition count waits for it, even
    // after all are well.
    const admin = this.#client(QUICK).admin();
    this.#admin = admin;
    const names = TOPICS.map((topic) => topicName(options.topicPrefix, topic));
    const topics = new TopicWatch({
      admin,
      names,
      partitions: options.partitions,
      everyMs: options.metadataMaxAgeMs ?? DEFAULT_METADATA_MAX_AGE_MS,
      logger: options.logger,
    });
    this.#topics = topics;
    const wire = new WireWatch();
    this.#producer = new KafkaProducer(
      this.#client(QUICK, wire),
      wire,
      options,
      {
        partitions: () => topics.partitions,
        largestRecordBytes: () => largestRecordBytes(admin, names),
      },
      this.#monotonic,
    );
    this.#consumerClient = this.#client(OF_CONSUMERS);
  }

  #client(limits: ClientLimits, wire?: WireWatch): Kafka {
    const { connection, logger } = this.#options;
    return makeKafkaClient(connection, logger, limits, this.#sockets, wire);
  }

  get partitions(): number {
    return this.#topics.partitions;
  }

  async open(): Promise<void> {
    await Promise.all([this.#admin.connect(), this.#ensureTopics()]);
    await this.#topics.start();
    await this.#producer.connect();
  }

  async #ensureTopics(): Promise<void> {
    const admin = this.#client(PATIENT).admin();
    try {
      await admin.connect();
      await ensureTopics(admin, this.#options);
    } finally {
      // What a frozen broker was asked is not worth waiting for.
      void admin.disconnect();
    }
  }

  append(records: readonly NewRecord[]): Promise<readonly Position[]> {
    return this.#producer.append(records);
  }

  async consume(options: ConsumerOptions): Promise<LogConsumer> {
    if (this.#closed) throw new LogError("log_closed", "the log is closed");
    const consumer: KafkaConsumer = new KafkaConsumer(
      {
        kafka: this.#consumerClient,
        groupId: this.#options.topicPrefix + options.group,
        topicPrefix: this.#options.topicPrefix,
        topicName: (topic) => topicName(this.#options.topicPrefix, topic),
        sessionTimeoutMs: this.#options.sessionTimeoutMs ?? DEFAULT_SESSION_TIMEOUT_MS,
        metadataMaxAgeMs: this.#options.metadataMaxAgeMs ?? DEFAULT_METADATA_MAX_AGE_MS,
        monotonic: this.#monotonic,
        learnAtLeast: (atLeast) => this.#topics.learnAtLeast(atLeast),
        losses: this.#lossesOf(options.group),
        onDisposed: () => this.#consumers.delete(consumer),
      },
      options,
    );
    // Added at once, so that a log that is closed meanwhile closes it as well.
    this.#consumers.add(consumer);
    try {
      await consumer.start();
      return consumer;
    } catch (error) {
      this.#consumers.delete(consumer);
      throw error;
    }
  }

  committedMetadata(group: string, topic: Topic): Promise<readonly string[]> {
    const { topicPrefix } = this.#options;
    return committedMetadata(this.#admin, topicPrefix + group, topicName(topicPrefix, topic));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    this.#topics[Symbol.dispose]();
    await Promise.all([...this.#consumers].map((consumer) => consumer[Symbol.asyncDispose]()));
    await this.#producer[Symbol.asyncDispose]();
    await this.#admin.disconnect();
    this.#sockets.end();
  }

  learnPartitions(): Promise<void> {
    return this.#topics.learn();
  }
}
