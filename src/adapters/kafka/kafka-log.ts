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
import { brokerFailure } from "./broker-failure.ts";
import { explainRefusal } from "./explain-refusal.ts";
import { committedMetadata } from "./consume/committed-metadata.ts";
import { KafkaConsumer } from "./consume/kafka-consumer.ts";
import { makeLossTellers } from "./consume/lost-records.ts";
import { makeKafkaClient, WireWatch } from "./kafka-client.ts";
import {
  DEFAULT_METADATA_MAX_AGE_MS,
  DEFAULT_SESSION_TIMEOUT_MS,
  topicName,
  type KafkaLogOptions,
} from "./kafka-options.ts";
import { OpenSockets } from "./open-sockets.ts";
import { KafkaProducer } from "./produce/kafka-producer.ts";
import { guardBroker } from "./guards/broker-guard.ts";
import { guardBrokerPool } from "./guards/broker-pool-guard.ts";
import { guardConsumerGroup } from "./guards/consumer-group-guard.ts";
import { guardConnection } from "./guards/connection-guard.ts";
import { guardLeaders } from "./guards/leader-guard.ts";
import { guardEncoder } from "./guards/encoder-guard.ts";
import { guardRequestQueue } from "./guards/request-queue-guard.ts";
import { guardStoppedRunner } from "./guards/stopped-runner-guard.ts";
import { ensureTopics, findTopics, largestRecordBytes, missingTopics } from "./topics.ts";

const QUICK = {
  connectionTimeout: 1_000,
  requestTimeout: 3_000,
  retry: { initialRetryTime: 100, maxRetryTime: 500, retries: 4 },
};
/** Callers within this time share one look-up. */
const LEARN_TOGETHER_MS = 500;
const LEARN_TRIES = 10;
const LEARN_RETRY_MS = 500;
/** Long enough for a broker to die and another controller to be elected. */
const OPEN_WITHIN_MS = 10_000;
const OPEN_RETRY_MS = 500;
/** Making topics on a cold broker takes time. */
const MAKE_TOPICS_TIMEOUT_MS = 30_000;
const HOW_TO_MEND = "end all delivery processes, then start them: topics are made at start";
const HOW_TO_GROW = "start any process of the relay again: it gives all topics as many partitions";
const AWAY_CODES: ReadonlySet<string> = new Set(["ECONNREFUSED", "ECONNRESET", "ETIMEDOUT"]);

/**
 * Opens the log port on Kafka: connects, makes missing topics and checks the rest. Waits some ten seconds for brokers that are
 * away. Consumers that were not disposed are disposed with it.
 * @throws {LogError} that says what is wrong
 */
export async function openKafkaLog(options: KafkaLogOptions): Promise<Log> {
  // Patches of kafkajs' prototypes, once per process.
  guardConnection();
  guardEncoder();
  guardRequestQueue();
  guardStoppedRunner();
  guardBroker();
  guardBrokerPool();
  guardLeaders();
  guardConsumerGroup();
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
  #refresher: NodeJS.Timeout | null = null;
  #partitions: number;
  #learning: Promise<void> | null = null;
  #toldLeaderless = "";
  #small = "";
  #closed = false;

  constructor(options: KafkaLogOptions) {
    this.#options = options;
    this.#partitions = options.partitions;
    this.#monotonic = options.monotonic ?? (() => performance.now());
    this.#lossesOf = makeLossTellers(options);
    const { connection, logger } = options;
    const sockets = this.#sockets;
    const wire = new WireWatch();
    this.#producer = new KafkaProducer(
      makeKafkaClient(connection, logger, QUICK, wire, sockets),
      wire,
      options,
      {
        partitions: () => this.#partitions,
        largestRecordBytes: () => largestRecordBytes(this.#admin, this.#topicNames()),
      },
      this.#monotonic,
    );
    // Quick, since a frozen broker is given up only once a request has timed out: until then the partition count waits for it, even
    // after all are well.
    this.#admin = makeKafkaClient(connection, logger, QUICK, new WireWatch(), sockets).admin();
    this.#consumerClient = makeKafkaClient(
      connection,
      logger,
      { connectionTimeout: 2_000, requestTimeout: 10_000 },
      new WireWatch(),
      sockets,
    );
  }

  get partitions(): number {
    return this.#partitions;
  }

  async open(): Promise<void> {
    await Promise.all([this.#admin.connect(), this.#ensureTopics()]);
    await this.#refreshPartitions();
    await this.#producer.connect();
    const everyMs = this.#options.metadataMaxAgeMs ?? DEFAULT_METADATA_MAX_AGE_MS;
    this.#refresher = setInterval(() => void this.#refresh(), everyMs);
    this.#refresher.unref();
  }

  async #ensureTopics(): Promise<void> {
    const { connection, logger } = this.#options;
    const patient = { ...QUICK, requestTimeout: MAKE_TOPICS_TIMEOUT_MS };
    const admin = makeKafkaClient(
      connection,
      logger,
      patient,
      new WireWatch(),
      this.#sockets,
    ).admin();
    try {
      await admin.connect();
      await ensureTopics(admin, this.#options, logger);
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
        learnAtLeast: (atLeast) => this.#learnAtLeast(atLeast),
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
    if (this.#refresher !== null) clearInterval(this.#refresher);
    await Promise.all([...this.#consumers].map((consumer) => consumer[Symbol.asyncDispose]()));
    await this.#producer[Symbol.asyncDispose]();
    await this.#admin.disconnect();
    this.#sockets.end();
  }

  learnPartitions(): Promise<void> {
    this.#learning ??= sleep(LEARN_TOGETHER_MS, undefined, { ref: false })
      .then(() => this.#refresh())
      .finally(() => {
        this.#learning = null;
      });
    return this.#learning;
  }

  async #learnAtLeast(atLeast: number): Promise<number> {
    for (let attempt = 1; !this.#closed; attempt += 1) {
      try {
        await this.#refreshPartitions();
        if (this.#partitions >= atLeast) break;
      } catch (error) {
        this.#options.logger.warn(brokerFailure(error), "log.metadata_not_refreshed");
      }
      // A topic that was left behind when the others grew must not keep the group from its work.
      if (attempt === LEARN_TRIES) break;
      await sleep(LEARN_RETRY_MS, undefined, { ref: false });
    }
    return this.#partitions;
  }

  /**
   * Looks up the partition count. Topics that were deleted are not made anew while consumers run, which would go on past the first
   * records of the new ones. The brokers' error names none of them, so they are looked up to be named.
   */
  async #refresh(): Promise<void> {
    const { logger } = this.#options;
    try {
      await this.#refreshPartitions();
    } catch (error) {
      logger.warn(brokerFailure(error), "log.metadata_not_refreshed");
      const topics = await missingTopics(this.#admin, this.#topicNames()).catch(() => []);
      if (topics.length > 0) logger.error({ topics, mend: HOW_TO_MEND }, "log.topics_missing");
    }
  }

  #topicNames(): readonly string[] {
    return TOPICS.map((topic) => topicName(this.#options.topicPrefix, topic));
  }

  async #refreshPartitions(): Promise<void> {
    const { partitions, leaderless, small } = await findTopics(this.#admin, this.#topicNames());
    // Partitions are never taken away; a broker that lags behind may still report fewer.
    this.#partitions = Math.max(this.#partitions, partitions);
    this.#tellOf(leaderless);
    this.#tellOfSmall(small);
  }

  /** Only of those that were as small the last time: a process that starts grows one after the other. */
  #tellOfSmall(topics: readonly string[]): void {
    const small = topics.join(" ");
    if (small !== "" && small === this.#small)
      this.#options.logger.error({ topics, mend: HOW_TO_GROW }, "log.partitions_uneven");
    this.#small = small;
  }

  #tellOf(leaderless: readonly string[]): void {
    const told = leaderless.join(" ");
    if (told === this.#toldLeaderless) return;
    this.#toldLeaderless = told;
    const { logger } = this.#options;
    if (told === "") logger.info({}, "log.leaders_are_back");
    else logger.error({ partitions: leaderless }, "log.partitions_without_leader");
  }
}
