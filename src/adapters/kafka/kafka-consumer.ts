import type { Batch, Consumer, EachBatchPayload, Kafka } from "kafkajs";
import { LogError, type ConsumerOptions, type LogConsumer, type Topic } from "../../domain/log.ts";
import type { Logger } from "../../domain/logger.ts";
import { lookUpOffsets, type AssignmentOffsets } from "./assignment-offsets.ts";
import { makeCoPartitionAssigner } from "./co-partition-assigner.ts";
import { consumerConfig } from "./consumer-config.ts";
import { whenUnreachable } from "./consumer-group-guard.ts";
import { groupLag } from "./group-lag.ts";
import { GroupSession } from "./group-session.ts";
import { KafkaPartition } from "./kafka-partition.ts";
import { offsetAt, toRecord } from "./partition-reader.ts";
import { settledWithin } from "./settled-within.ts";
import { limitsOf, TopicFlow, type TopicFlowLimits } from "./topic-flow.ts";

export interface KafkaConsumerSettings {
  readonly kafka: Kafka;
  readonly logger: Logger;
  /** The group's name at the brokers. */
  readonly groupId: string;
  readonly topicName: (topic: Topic) => string;
  readonly sessionTimeoutMs: number;
  readonly metadataMaxAgeMs: number;
  readonly monotonic: () => number;
  /** Looks the partition count up until it is at least so high. Never rejects. */
  readonly learnPartitions: (atLeast: number) => Promise<void>;
}

const REVOKE_TIMEOUT_MS = 5_000;
const RETRY_MS = 1_000;
const RESTART_MS = 1_000;

/** `consume` of the log port on a kafkajs consumer group. */
export class KafkaConsumer implements LogConsumer {
  readonly #settings: KafkaConsumerSettings;
  readonly #options: ConsumerOptions;
  readonly #session: GroupSession;
  readonly #consumer: Consumer;
  readonly #topics: ReadonlyMap<string, Topic>;
  readonly #flowing: ReadonlySet<Topic>;
  #owned = new Map<number, KafkaPartition>();
  #revoking: Promise<void> = Promise.resolve();
  /** Counts revocations: what began before the last one is of no use. */
  #epoch = 0;
  #restart: NodeJS.Timeout | null = null;
  #starting: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(settings: KafkaConsumerSettings, options: ConsumerOptions) {
    this.#settings = settings;
    this.#options = options;
    this.#flowing = new Set(options.topics);
    const topics = [...new Set([...options.topics, ...(options.sideTopics ?? [])])];
    this.#topics = new Map(topics.map((topic) => [settings.topicName(topic), topic]));
    this.#session = new GroupSession({
      groupId: settings.groupId,
      sessionTimeoutMs: settings.sessionTimeoutMs,
      monotonic: settings.monotonic,
      beforeJoin: () => this.#revokeAll(),
    });
    this.#consumer = settings.kafka.consumer({
      ...consumerConfig(settings),
      rebalanceTimeout: Math.max(settings.sessionTimeoutMs, REVOKE_TIMEOUT_MS * 2),
      partitionAssigners: [
        ({ cluster }) => {
          this.#session.attach(cluster);
          whenUnreachable(cluster, (error) => options.onError(error));
          return makeCoPartitionAssigner((topic) =>
            cluster.findTopicPartitionMetadata(topic).map(({ partitionId }) => partitionId),
          );
        },
      ],
    });
    const { GROUP_JOIN, REBALANCING, CRASH } = this.#consumer.events;
    this.#consumer.on(REBALANCING, () => void this.#revokeAll());
    this.#consumer.on(GROUP_JOIN, ({ payload }) => this.#assign(payload.memberAssignment));
    this.#consumer.on(CRASH, ({ payload }) => this.#crashed(payload.error));
  }

  /** Joins the group. @throws {LogError} when the brokers cannot be reached */
  async start(): Promise<void> {
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
  }

  lag(): Promise<ReadonlyMap<Topic, number>> {
    const owned = [...this.#owned.values()].filter((partition) => partition.owned());
    return groupLag(
      this.#session,
      this.#options.topics.map((topic) => [topic, this.#settings.topicName(topic)]),
      owned.map(({ partition }) => partition),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    if (this.#restart !== null) clearTimeout(this.#restart);
    await this.#revokeAll();
    await this.#consumer.disconnect();
    await this.#starting;
    this.#session.end();
  }

  #run(): Promise<void> {
    return this.#consumer.run({
      autoCommit: false,
      eachBatchAutoResolve: false,
      partitionsConsumedConcurrently: 4,
      eachBatch: async (payload) => this.#receive(payload),
    });
  }

  #assign(assignment: Readonly<Record<string, readonly number[]>>): void {
    // Whoever owns still, or is about to, is of an assignment that this one replaces.
    const revoked = this.#revokeAll();
    const topics = Object.entries(assignment).map(([topic, partitions]) => ({ topic, partitions }));
    if (topics.length === 0) return;
    this.#consumer.pause(
      topics.map(({ topic, partitions }) => ({ topic, partitions: [...partitions] })),
    );
    void this.#open(topics, revoked);
  }

  /** Looks up what was committed, tells the owner, and lets the records flow. Repeated until done or the generation is over. */
  async #open(
    topics: readonly { readonly topic: string; readonly partitions: readonly number[] }[],
    revoked: Promise<void>,
  ): Promise<void> {
    const epoch = this.#epoch;
    const isCurrent = () => !this.#closed && epoch === this.#epoch;
    await revoked;
    const numbers = [...new Set(topics.flatMap(({ partitions }) => partitions))];
    // Whose home a partition is follows from their number: an owner that is behind would serve what is another's by now.
    await this.#settings.learnPartitions(Math.max(...numbers) + 1);
    const offsets = await this.#retry(isCurrent, () => lookUpOffsets(this.#session, topics));
    if (offsets === null || !isCurrent()) return;
    const opened = numbers.map((number) => {
      const entries = new Map(
        [...this.#topics].flatMap(([name, topic]) => {
          const entry = offsets.committed(name, number);
          return entry === null ? [] : [[topic, entry] as const];
        }),
      );
      return new KafkaPartition(number, this.#session, this.#settings.topicName, entries);
    });
    this.#owned = new Map(opened.map((partition) => [partition.partition, partition]));
    const limits = limitsOf(opened.length * this.#flowing.size, this.#options.maxBatchBytes);
    await Promise.all(opened.map((partition) => this.#openPartition(partition, limits, offsets)));
  }

  async #openPartition(
    partition: KafkaPartition,
    limits: TopicFlowLimits,
    offsets: AssignmentOffsets,
  ): Promise<void> {
    const isCurrent = () => this.#owned.get(partition.partition) === partition;
    for (const topic of this.#flowing) {
      const name = this.#settings.topicName(topic);
      const target = [{ topic: name, partitions: [partition.partition] }];
      const start = offsets.start(name, partition.partition);
      const flow: TopicFlow = new TopicFlow(start, limits, {
        handOver: (records) => this.#options.onRecords(partition, topic, records),
        setFetching: (on) => {
          if (!isCurrent()) return;
          if (on) this.#consumer.resume(target);
          else this.#consumer.pause(target);
        },
        seekBack: () => {
          if (isCurrent()) this.#seek(topic, partition.partition, flow.expectedOffset);
        },
        onError: (error) => this.#options.onError(error),
      });
      partition.flows.set(topic, flow);
    }
    const assigned = await this.#retry(isCurrent, async () => {
      await this.#options.onAssigned(partition);
      return true;
    });
    if (assigned === null || !isCurrent()) return;
    for (const [topic, flow] of partition.flows) {
      this.#seek(topic, partition.partition, flow.expectedOffset);
      flow.start();
    }
  }

  #receive(payload: EachBatchPayload): void {
    const { batch } = payload;
    const topic = this.#topics.get(batch.topic);
    const flow =
      topic === undefined ? undefined : this.#owned.get(batch.partition)?.flows.get(topic);
    if (topic === undefined || flow === undefined) return;
    // A fetch that was under way while the group was joined again must not slip into the new generation.
    const fetchedFrom = Number((batch as Batch & { readonly fetchedOffset: string }).fetchedOffset);
    if (fetchedFrom !== flow.expectedOffset) {
      void this.#realign(topic, batch.partition, flow);
      return;
    }
    const next = Number(batch.lastOffset()) + 1;
    const address = { topic, partition: batch.partition };
    flow.push(
      batch.messages.map((message) => toRecord(address, message)),
      next,
    );
    payload.resolveOffset(batch.lastOffset());
  }

  async #realign(topic: Topic, partition: number, flow: TopicFlow): Promise<void> {
    const address = { topic, name: this.#settings.topicName(topic), partition };
    try {
      flow.moveTo(await offsetAt(this.#session.cluster, address, "earliest"));
      if (this.#owned.get(partition)?.flows.get(topic) === flow)
        this.#seek(topic, partition, flow.expectedOffset);
    } catch (error) {
      this.#options.onError(error as Error);
    }
  }

  #seek(topic: Topic, partition: number, offset: number): void {
    this.#consumer.seek({
      topic: this.#settings.topicName(topic),
      partition,
      offset: String(offset),
    });
  }

  /** Ends ownership of everything; resolves when the owners have made their last commits, or after 5 s. */
  #revokeAll(): Promise<void> {
    this.#epoch += 1;
    const revoked = [...this.#owned.values()];
    if (revoked.length === 0) return this.#revoking;
    this.#owned = new Map();
    for (const partition of revoked) partition.revoke();
    this.#revoking = this.#lastCommits(revoked);
    return this.#revoking;
  }

  async #lastCommits(revoked: readonly KafkaPartition[]): Promise<void> {
    const commits = revoked.map(async (partition) => {
      try {
        await this.#options.onRevoked(partition);
      } catch (error) {
        this.#options.onError(error as Error);
      }
    });
    await settledWithin(commits, REVOKE_TIMEOUT_MS);
    for (const partition of revoked) partition.close();
  }

  #crashed(error: Error): void {
    void this.#revokeAll();
    if (this.#closed) return;
    this.#options.onError(error);
    if (this.#restart !== null) return;
    this.#restart = setTimeout(() => {
      this.#restart = null;
      this.#starting = this.#startAgain();
    }, RESTART_MS);
    this.#restart.unref();
  }

  async #startAgain(): Promise<void> {
    try {
      await this.start();
      // Closed meanwhile: what was joined just now would stay in the group.
      if (this.#closed) await this.#consumer.disconnect();
    } catch (error) {
      this.#crashed(error as Error);
    }
  }

  /** Null when it is of no use any more. */
  async #retry<T>(isCurrent: () => boolean, work: () => Promise<T>): Promise<T | null> {
    while (isCurrent()) {
      try {
        return await work();
      } catch (error) {
        if (!isCurrent()) return null;
        this.#options.onError(error as Error);
        await new Promise((resolve) => setTimeout(resolve, RETRY_MS).unref());
        // A leader that has moved would be asked at its old place until the metadata is thirty seconds old.
        if (isCurrent()) await this.#session.cluster.refreshMetadata().catch(() => undefined);
      }
    }
    return null;
  }
}
