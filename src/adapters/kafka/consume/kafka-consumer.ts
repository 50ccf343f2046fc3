import type { Consumer, Kafka } from "kafkajs";
import {
  LogError,
  type ConsumerOptions,
  type LogConsumer,
  type Topic,
} from "../../../domain/log.ts";
import { TIMERS } from "../../../domain/clock.ts";
import { within } from "../../../domain/within.ts";
import { makeCoPartitionAssigner } from "./co-partition-assigner.ts";
import { consumerConfig } from "./consumer-config.ts";
import { explainBroken } from "./explain-broken.ts";
import { listenToGroup } from "../guards/consumer-group-guard.ts";
import { GroupAssignment, REVOKE_TIMEOUT_MS } from "./group-assignment.ts";
import { groupLag } from "./group-lag.ts";
import { GroupSession } from "./group-session.ts";
import type { LossTeller } from "./lost-records.ts";

export interface KafkaConsumerSettings {
  readonly kafka: Kafka;
  /** The group's name at the brokers. */
  readonly groupId: string;
  readonly topicPrefix: string;
  readonly topicName: (topic: Topic) => string;
  readonly sessionTimeoutMs: number;
  readonly metadataMaxAgeMs: number;
  readonly monotonic: () => number;
  /** Looks up the partition count until it is at least this high, for some seconds at most, and returns it. Never rejects. */
  readonly learnAtLeast: (atLeast: number) => Promise<number>;
  readonly losses: LossTeller;
  /** Called when it has ended, so that whoever keeps it can let it go. */
  readonly onDisposed: () => void;
}

const RESTART_MS = 1_000;
/** Healthy brokers take milliseconds to let it go; those that are gone, or answer nothing, would be asked for half a minute. */
const LEAVE_TIMEOUT_MS = 3_000;

/** `consume` of the log port on a kafkajs consumer group. */
export class KafkaConsumer implements LogConsumer {
  readonly #settings: KafkaConsumerSettings;
  readonly #options: ConsumerOptions;
  readonly #session: GroupSession;
  readonly #consumer: Consumer;
  readonly #topics: ReadonlyMap<string, Topic>;
  readonly #assignment: GroupAssignment;
  #restart: NodeJS.Timeout | null = null;
  #starting: Promise<void> = Promise.resolve();
  #closed = false;
  /** Monotonic; null unless it broke and has not read again. */
  #brokenSinceMs: number | null = null;

  constructor(settings: KafkaConsumerSettings, given: ConsumerOptions) {
    this.#settings = settings;
    const options: ConsumerOptions = {
      ...given,
      onError: (error) => given.onError(explainBroken(settings.topicPrefix, error)),
    };
    this.#options = options;
    const topics = [...new Set([...options.topics, ...(options.sideTopics ?? [])])];
    this.#topics = new Map(topics.map((topic) => [settings.topicName(topic), topic]));
    this.#session = new GroupSession({
      groupId: settings.groupId,
      sessionTimeoutMs: settings.sessionTimeoutMs,
      monotonic: settings.monotonic,
      beforeJoin: () => this.#assignment.revoke(),
      onError: (error) => this.#tellBroken(error),
    });
    this.#consumer = settings.kafka.consumer({
      ...consumerConfig(settings),
      rebalanceTimeout: Math.max(settings.sessionTimeoutMs, REVOKE_TIMEOUT_MS * 2),
      partitionAssigners: [
        ({ cluster }) => {
          this.#session.attach(cluster);
          listenToGroup(cluster, {
            unreachable: (error) => this.#tellBroken(error),
            fetched: () => this.#tellRestored(),
            outOfRange: (name, partition) => this.#assignment.outOfRange(name, partition),
          });
          return makeCoPartitionAssigner((topic) =>
            cluster.findTopicPartitionMetadata(topic).map(({ partitionId }) => partitionId),
          );
        },
      ],
    });
    this.#assignment = new GroupAssignment(
      { ...settings, consumer: this.#consumer, session: this.#session, topics: this.#topics },
      options,
    );
    const { GROUP_JOIN, REBALANCING, CRASH } = this.#consumer.events;
    this.#consumer.on(REBALANCING, () => void this.#assignment.revoke());
    this.#consumer.on(GROUP_JOIN, ({ payload }) => {
      // With partitions it works only once it has read: its user may have the right to the group, and none to the topics.
      if (Object.values(payload.memberAssignment).flat().length === 0) this.#tellRestored();
      this.#assignment.assign(payload.memberAssignment);
    });
    this.#consumer.on(CRASH, ({ payload }) => this.#crashed(payload.error));
  }

  /** Joins the group. @throws {LogError} when the brokers cannot be reached, or it is closed meanwhile */
  start(): Promise<void> {
    const starting = this.#join();
    this.#starting = starting.catch(() => undefined);
    return starting;
  }

  async #join(): Promise<void> {
    try {
      await this.#consumer.connect();
      await this.#consumer.subscribe({ topics: [...this.#topics.keys()], fromBeginning: true });
      await this.#run();
    } catch (error) {
      await this.#consumer.disconnect().catch(() => undefined);
      throw new LogError("log_unavailable", "the consumer group cannot be joined", {
        cause: error,
      });
    }
    if (!this.#closed) return;
    // Having joined just now, it would stay in the group.
    await this.#consumer.disconnect().catch(() => undefined);
    throw new LogError("log_closed", "the log is closed");
  }

  lag(): Promise<ReadonlyMap<Topic, number>> {
    return groupLag(
      this.#session,
      this.#options.topics.map((topic) => [topic, this.#settings.topicName(topic)]),
      this.#assignment.owned,
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    if (this.#restart !== null) clearTimeout(this.#restart);
    await this.#assignment.end();
    const left = Promise.allSettled([this.#consumer.disconnect(), this.#starting]);
    await within(left, LEAVE_TIMEOUT_MS, () => {}, TIMERS);
    this.#session.end();
    this.#settings.onDisposed();
  }

  #run(): Promise<void> {
    return this.#consumer.run({
      autoCommit: false,
      eachBatchAutoResolve: false,
      partitionsConsumedConcurrently: 4,
      eachBatch: async (payload) => this.#assignment.receive(payload),
    });
  }

  #crashed(error: Error): void {
    void this.#assignment.revoke();
    if (this.#closed) return;
    this.#tellBroken(error);
    if (this.#restart !== null) return;
    this.#restart = setTimeout(() => {
      this.#restart = null;
      this.start().catch((cause: Error) => this.#crashed(cause));
    }, RESTART_MS);
    this.#restart.unref();
  }

  #tellBroken(error: Error): void {
    this.#brokenSinceMs ??= this.#settings.monotonic();
    this.#options.onError(error);
  }

  #tellRestored(): void {
    if (this.#brokenSinceMs === null) return;
    this.#options.onRestored?.(Math.round(this.#settings.monotonic() - this.#brokenSinceMs));
    this.#brokenSinceMs = null;
  }
}
