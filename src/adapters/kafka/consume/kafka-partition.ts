import type {
  CommitEntry,
  Committed,
  LogRecord,
  OwnedPartition,
  Topic,
} from "../../../domain/log.ts";
import type { AssignmentOffsets } from "./assignment-offsets.ts";
import type { GroupSession } from "./group-session.ts";
import type { LossTeller, LostRecords } from "./lost-records.ts";
import { offsetAt, type PartitionAddress } from "./partition-offsets.ts";
import { readPartition } from "./partition-reader.ts";
import type { TopicFlow } from "./topic-flow.ts";

export interface KafkaPartitionSettings {
  readonly session: GroupSession;
  readonly topicName: (topic: Topic) => string;
  readonly losses: LossTeller;
}

/** One partition number in one generation of the group. */
export class KafkaPartition implements OwnedPartition {
  readonly partition: number;
  readonly partitions: number;
  readonly flows = new Map<Topic, TopicFlow>();
  readonly #session: GroupSession;
  readonly #generation: number;
  readonly #topicName: (topic: Topic) => string;
  readonly #losses: LossTeller;
  readonly #offsets: AssignmentOffsets;
  #revoked = false;
  #closed = false;

  constructor(
    { partition, partitions }: Pick<OwnedPartition, "partition" | "partitions">,
    { session, topicName, losses }: KafkaPartitionSettings,
    offsets: AssignmentOffsets,
  ) {
    this.partition = partition;
    this.partitions = partitions;
    this.#session = session;
    this.#generation = session.generation;
    this.#topicName = topicName;
    this.#losses = losses;
    this.#offsets = offsets;
  }

  owned(): boolean {
    return !this.#revoked && this.exclusive();
  }

  exclusive(): boolean {
    const { generation } = this.#session;
    return !this.#closed && this.#generation === generation && this.#session.isAlive();
  }

  committed(topic: Topic): Committed | null {
    return this.#offsets.committed(this.#topicName(topic), this.partition);
  }

  /** Tells of what retention has deleted, having committed past it: no later owner tells of it again. @throws {LogError} */
  async passLost(): Promise<void> {
    const { partition } = this;
    const lost = [...this.flows.keys()].flatMap((topic): LostRecords[] => {
      const offsets = this.#offsets.lost(this.#topicName(topic), partition);
      return offsets === null ? [] : [{ topic, partition, ...offsets, why: "deleted" }];
    });
    await this.commit(
      lost.map(({ topic, to }) => ({ ...this.committed(topic), topic, offset: to })),
    );
    for (const records of lost) this.#losses.lost(records);
  }

  endOffset(topic: Topic): Promise<number> {
    return offsetAt(this.#session.cluster, this.#address(topic), "latest");
  }

  read(topic: Topic, fromOffset: number): AsyncIterable<readonly LogRecord[]> {
    return readPartition(this.#session.cluster, this.#address(topic), fromOffset, this.#losses);
  }

  async commit(entries: readonly CommitEntry[]): Promise<void> {
    if (this.#closed || entries.length === 0) return;
    await this.#session.commit(
      entries.map(({ topic, offset, metadata }) => ({
        topic: this.#topicName(topic),
        partition: this.partition,
        offset,
        metadata: metadata ?? "",
      })),
      this.#generation,
    );
  }

  /** Takes no new work from here on; commits are still possible. */
  revoke(): void {
    this.#revoked = true;
    for (const flow of this.flows.values()) flow.end();
  }

  /** Ends everything, commits included. */
  close(): void {
    this.#closed = true;
  }

  #address(topic: Topic): PartitionAddress {
    return {
      topic,
      name: this.#topicName(topic),
      partition: this.partition,
      isClosed: () => this.#closed,
    };
  }
}
