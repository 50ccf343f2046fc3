import { setTimeout as sleep } from "node:timers/promises";
import type { Batch, Consumer, EachBatchPayload } from "kafkajs";
import {
  LogError,
  type ConsumerOptions,
  type OwnedPartition,
  type Topic,
} from "../../../domain/log.ts";
import { TIMERS } from "../../../domain/clock.ts";
import { within } from "../../../domain/within.ts";
import { lookUpOffsets, type AssignmentOffsets } from "./assignment-offsets.ts";
import { endOf } from "./fetch-messages.ts";
import type { GroupSession } from "./group-session.ts";
import { KafkaPartition } from "./kafka-partition.ts";
import type { LossTeller } from "./lost-records.ts";
import { offsetAt, type TopicPartitions } from "./partition-offsets.ts";
import { readableRecords } from "./readable-records.ts";
import { partitionName } from "../partition-name.ts";
import { limitsOf, TopicFlow, type TopicFlowLimits } from "./topic-flow.ts";

export interface GroupAssignmentSettings {
  readonly consumer: Consumer;
  readonly session: GroupSession;
  /** Topics by the brokers' names for them. */
  readonly topics: ReadonlyMap<string, Topic>;
  readonly topicName: (topic: Topic) => string;
  /** Looks up the partition count until it is at least this high, for some seconds at most, and returns it. Never rejects. */
  readonly learnAtLeast: (atLeast: number) => Promise<number>;
  readonly losses: LossTeller;
}

/** Partitions by the brokers' name of the topic. */
type Partitions = Readonly<Record<string, readonly number[]>>;

/** How long the owners' last commits may take; any later they are of no use. */
export const REVOKE_TIMEOUT_MS = 5_000;
const RETRY_MS = 1_000;

/** Opens the partitions that the group has given to this member, feeds them with records, and gives them up. */
export class GroupAssignment {
  readonly #settings: GroupAssignmentSettings;
  readonly #options: ConsumerOptions;
  readonly #flowing: ReadonlySet<Topic>;
  #assigned: Partitions = {};
  #owned = new Map<number, KafkaPartition>();
  #revoking: Promise<void> = Promise.resolve();
  /** Counts revocations: whatever began before the last one no longer matters. */
  #epoch = 0;
  #ended = false;

  constructor(settings: GroupAssignmentSettings, options: ConsumerOptions) {
    this.#settings = settings;
    this.#options = options;
    this.#flowing = new Set(options.topics);
  }

  /** Numbers of the partitions that are owned at this moment. */
  get owned(): readonly number[] {
    return [...this.#owned.values()]
      .filter((partition) => partition.owned())
      .map(({ partition }) => partition);
  }

  /** Replaces what was assigned before. */
  assign(assigned: Partitions): void {
    this.#assigned = assigned;
    // Whatever is still owned, or about to be, belongs to an assignment that this one replaces.
    const revoked = this.revoke();
    const topics = Object.entries(assigned).map(([topic, partitions]) => ({ topic, partitions }));
    if (topics.length === 0) return;
    this.#settings.consumer.pause(
      topics.map(({ topic, partitions }) => ({ topic, partitions: [...partitions] })),
    );
    this.#open(topics, revoked).catch((error: unknown) => this.#options.onError(error as Error));
  }

  /** Ends ownership of everything; resolves when the owners have made their last commits, or after 5 s. */
  revoke(): Promise<void> {
    this.#epoch += 1;
    const revoked = [...this.#owned.values()];
    if (revoked.length === 0) return this.#revoking;
    this.#owned = new Map();
    for (const partition of revoked) partition.revoke();
    this.#revoking = this.#lastCommits(revoked);
    return this.#revoking;
  }

  /** Revokes as `revoke` does, and opens nothing that is assigned from here on. */
  end(): Promise<void> {
    this.#ended = true;
    return this.revoke();
  }

  /** Takes fetched records. Those that their owner does not wait for are fetched again. */
  async receive(payload: EachBatchPayload): Promise<void> {
    const { batch } = payload;
    const { partition, messages } = batch;
    const topic = this.#settings.topics.get(batch.topic);
    const flow = this.#flowOf(topic, partition);
    if (topic === undefined || flow === undefined) return;
    // A fetch that was under way while the group was rejoined must not slip into the new generation.
    const fetchedFrom = Number((batch as Batch & { readonly fetchedOffset: string }).fetchedOffset);
    if (fetchedFrom !== flow.expectedOffset) {
      void this.#realign(topic, partition, flow);
      return;
    }
    const { session, losses } = this.#settings;
    const place = { topic, name: batch.topic, partition };
    const records = await readableRecords(session.cluster, place, messages, fetchedFrom, losses);
    if (this.#flowOf(topic, partition) !== flow || fetchedFrom !== flow.expectedOffset) return;
    const last = messages.at(-1);
    const next = Math.max(Number(batch.lastOffset()) + 1, last === undefined ? 0 : endOf(last));
    flow.push(records, next);
    payload.resolveOffset(String(next - 1));
  }

  /** Moves an owner that is outside of its log: retention has passed where it is, or the log ends before. */
  async outOfRange(name: string, partition: number): Promise<void> {
    const topic = this.#settings.topics.get(name);
    const flow = this.#flowOf(topic, partition);
    if (topic === undefined || flow === undefined) return;
    try {
      const end = await offsetAt(
        this.#settings.session.cluster,
        { topic, name, partition },
        "latest",
      );
      if (this.#flowOf(topic, partition) !== flow) return;
      if (end >= flow.expectedOffset) return await this.#realign(topic, partition, flow);
      this.#options.onError(
        new LogError(
          "log_unavailable",
          `${partitionName(name, partition)} ends at ${end}, and was read up to ${flow.expectedOffset}: records were lost with a broker's disk, or by the election of a replica that did not have them: going on from its end. Or the topic was made anew: going on from its beginning`,
        ),
      );
      // Owners learn where to begin only when they are assigned.
      this.assign(this.#assigned);
    } catch (error) {
      this.#options.onError(error as Error);
    }
  }

  /** Looks up what was committed, tells the owner, and lets the records flow; repeats until done or the generation is over. */
  async #open(topics: readonly TopicPartitions[], revoked: Promise<void>): Promise<void> {
    const epoch = this.#epoch;
    const isCurrent = () => !this.#ended && epoch === this.#epoch;
    await revoked;
    const numbers = [...new Set(topics.flatMap(({ partitions }) => partitions))];
    // An endpoint's home follows from the number of partitions: an owner that is behind would serve endpoints that are another's by now.
    const agreed = this.#settings.session.partitions;
    const known = await this.#settings.learnAtLeast(agreed ?? Math.max(...numbers) + 1);
    const partitions = agreed ?? known;
    const limits = limitsOf(numbers.length * this.#flowing.size, this.#options.maxBatchBytes);
    for (let waiting = numbers; waiting.length > 0;) {
      const wanted = topics.map(({ topic, partitions }) => ({
        topic,
        partitions: partitions.filter((partition) => waiting.includes(partition)),
      }));
      const offsets = await this.#retry(isCurrent, () =>
        lookUpOffsets(this.#settings.session, wanted),
      );
      if (offsets === null || !isCurrent()) return;
      const unknown = wanted.flatMap(({ topic, partitions }) =>
        partitions
          .filter((partition) => !offsets.isKnown(topic, partition))
          .map((partition) => ({ name: partitionName(topic, partition), partition })),
      );
      const without = new Set(unknown.map(({ partition }) => partition));
      for (const number of waiting)
        if (!without.has(number))
          this.#openPartition({ partition: number, partitions }, limits, offsets);
      waiting = waiting.filter((number) => without.has(number));
      if (waiting.length === 0) return;
      const names = unknown.map(({ name }) => name).join(", ");
      this.#options.onError(
        new LogError(
          "log_unavailable",
          `no leader that can be reached for ${names}: not read until there is one, and what goes with them neither`,
        ),
      );
      await this.#lookAgain(isCurrent);
    }
  }

  #openPartition(
    place: Pick<OwnedPartition, "partition" | "partitions">,
    limits: TopicFlowLimits,
    offsets: AssignmentOffsets,
  ): void {
    const partition = new KafkaPartition(place, this.#settings, offsets);
    this.#owned.set(place.partition, partition);
    this.#startPartition(partition, limits, offsets).catch((error: unknown) =>
      this.#options.onError(error as Error),
    );
  }

  async #startPartition(
    partition: KafkaPartition,
    limits: TopicFlowLimits,
    offsets: AssignmentOffsets,
  ): Promise<void> {
    const { consumer, losses } = this.#settings;
    const { partition: number } = partition;
    const isCurrent = () => this.#owned.get(number) === partition;
    for (const topic of this.#flowing) {
      const name = this.#settings.topicName(topic);
      const target = [{ topic: name, partitions: [number] }];
      const start = offsets.start(name, number);
      const flow: TopicFlow = new TopicFlow(start, limits, {
        handOver: (records) => this.#options.onRecords(partition, topic, records),
        setFetching: (on) => {
          if (!isCurrent()) return;
          if (on) consumer.resume(target);
          else consumer.pause(target);
        },
        seekBack: () => {
          if (isCurrent()) this.#seek(topic, number, flow.expectedOffset);
        },
        onGap: (from, to) => losses.lost({ topic, partition: number, from, to, why: "deleted" }),
        onError: (error) => this.#options.onError(error),
      });
      partition.flows.set(topic, flow);
    }
    await this.#retry(isCurrent, () => partition.passLost());
    const assigned = await this.#retry(isCurrent, async () => {
      await this.#options.onAssigned(partition);
      return true;
    });
    if (assigned === null || !isCurrent()) return;
    for (const [topic, flow] of partition.flows) {
      this.#seek(topic, number, flow.expectedOffset);
      flow.start();
    }
  }

  async #realign(topic: Topic, partition: number, flow: TopicFlow): Promise<void> {
    const address = { topic, name: this.#settings.topicName(topic), partition };
    try {
      const to = await offsetAt(this.#settings.session.cluster, address, "earliest");
      if (this.#flowOf(topic, partition) !== flow) return;
      const from = flow.expectedOffset;
      flow.moveTo(to);
      if (from < to) this.#settings.losses.lost({ topic, partition, from, to, why: "deleted" });
      this.#seek(topic, partition, flow.expectedOffset);
    } catch (error) {
      this.#options.onError(error as Error);
    }
  }

  /** Returns undefined while the partition is not owned, or its records are not asked for. */
  #flowOf(topic: Topic | undefined, partition: number): TopicFlow | undefined {
    return topic && this.#owned.get(partition)?.flows.get(topic);
  }

  #seek(topic: Topic, partition: number, offset: number): void {
    this.#settings.consumer.seek({
      topic: this.#settings.topicName(topic),
      partition,
      offset: String(offset),
    });
  }

  async #lastCommits(revoked: readonly KafkaPartition[]): Promise<void> {
    const commits = revoked.map(async (partition) => {
      try {
        await this.#options.onRevoked(partition);
      } catch (error) {
        this.#options.onError(error as Error);
      }
    });
    await within(Promise.allSettled(commits), REVOKE_TIMEOUT_MS, () => {}, TIMERS);
    for (const partition of revoked) partition.close();
  }

  /** Repeats `work` until it succeeds; returns null once it is no longer of use. */
  async #retry<T>(isCurrent: () => boolean, work: () => Promise<T>): Promise<T | null> {
    while (isCurrent()) {
      try {
        return await work();
      } catch (error) {
        if (!isCurrent()) return null;
        this.#options.onError(error as Error);
        await this.#lookAgain(isCurrent);
      }
    }
    return null;
  }

  /** Waits, then refreshes the metadata: a leader that has moved would be asked at its old place until that is thirty seconds old. */
  async #lookAgain(isCurrent: () => boolean): Promise<void> {
    await sleep(RETRY_MS, undefined, { ref: false });
    if (isCurrent()) await this.#settings.session.cluster.refreshMetadata().catch(() => undefined);
  }
}
