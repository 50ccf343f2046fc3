import type {
  CommitEntry,
  Committed,
  ConsumerOptions,
  LogRecord,
  OwnedPartition,
  Topic,
} from "../../../domain/log.ts";
import { nextTurn } from "../../../domain/next-turn.ts";
import type { GroupStates } from "./group-states.ts";
import { Pump } from "./pump.ts";
import { readBatch } from "../streams/read-batch.ts";
import type { RunQueue } from "../run-queue.ts";
import type { CommitStore } from "../store.ts";
import type { StreamTable } from "../streams/stream-table.ts";

const DEFAULT_BATCH_BYTES = 1024 * 1024;

export interface OwnershipDeps {
  readonly store: CommitStore;
  readonly streams: StreamTable;
  readonly groups: GroupStates;
  readonly queue: RunQueue;
}

/** One partition number of every topic of a group, held by one consumer until it is revoked. */
export class PartitionOwnership implements OwnedPartition {
  readonly partition: number;
  readonly partitions: number;
  readonly #deps: OwnershipDeps;
  readonly #options: ConsumerOptions;
  readonly #committed = new Map<Topic, Committed | null>();
  readonly #pumps: Pump[] = [];
  readonly #failed: (cause: unknown) => void;
  #owned = true;
  #maySendCommits = true;

  constructor(
    partition: number,
    options: ConsumerOptions,
    deps: OwnershipDeps,
    failed: (cause: unknown) => void,
  ) {
    this.partition = partition;
    this.partitions = deps.streams.partitions;
    this.#options = options;
    this.#deps = deps;
    this.#failed = failed;
    for (const topic of [...options.topics, ...(options.sideTopics ?? [])])
      this.#committed.set(topic, deps.groups.committed(options.group, topic, partition));
  }

  owned(): boolean {
    return this.#owned;
  }

  exclusive(): boolean {
    return this.#maySendCommits;
  }

  committed(topic: Topic): Committed | null {
    return this.#committed.get(topic) ?? null;
  }

  async endOffset(topic: Topic): Promise<number> {
    return this.#deps.streams.get(topic, this.partition).endOffset;
  }

  read(topic: Topic, fromOffset: number): AsyncIterable<readonly LogRecord[]> {
    const stream = this.#deps.streams.get(topic, this.partition);
    const endOffset = stream.endOffset;
    const { store } = this.#deps;
    const maxBytes = this.#options.maxBatchBytes ?? DEFAULT_BATCH_BYTES;
    return (async function* read() {
      let next = fromOffset;
      while (next < endOffset) {
        const batch = readBatch(store, stream, next, maxBytes);
        next = batch.next;
        const records = batch.records.filter((record) => record.offset < endOffset);
        if (records.length > 0) yield records;
        // Reading a long log must not block the event loop.
        await nextTurn();
      }
    })();
  }

  async commit(entries: readonly CommitEntry[]): Promise<void> {
    if (!this.#maySendCommits || entries.length === 0) return;
    for (const { topic, offset } of entries)
      if (!Number.isInteger(offset) || offset < 0)
        throw new RangeError(`cannot commit offset ${offset} of ${topic}`);
    await this.#deps.groups.commit(this.#options.group, this.partition, entries);
  }

  /** Lets records flow from here on. */
  start(): void {
    if (!this.#owned) return;
    for (const topic of this.#options.topics) {
      const pump = new Pump({
        stream: this.#deps.streams.get(topic, this.partition),
        store: this.#deps.store,
        queue: this.#deps.queue,
        fromOffset: this.#committed.get(topic)?.offset ?? 0,
        maxBatchBytes: this.#options.maxBatchBytes ?? DEFAULT_BATCH_BYTES,
        hand: (records) => this.#options.onRecords(this, topic, records),
        failed: this.#failed,
      });
      this.#pumps.push(pump);
    }
  }

  /** Ends the flow of records; commits still count until `end`. */
  stop(): void {
    this.#owned = false;
    for (const pump of this.#pumps) pump.stop();
  }

  end(): void {
    this.stop();
    this.#maySendCommits = false;
  }

  lag(topic: Topic): number {
    const stream = this.#deps.streams.get(topic, this.partition);
    const committed = this.#deps.groups.committed(this.#options.group, topic, this.partition);
    return stream.endOffset - Math.max(committed?.offset ?? 0, stream.startOffset);
  }
}
