import type {
  Committed,
  ConsumerOptions,
  Log,
  LogConsumer,
  LogRecord,
  OwnedPartition,
  Topic,
} from "../../src/domain/log.ts";
import { partitionOf } from "../../src/domain/partition.ts";

/** An in-memory log port for one group at a time: enough to record from, with commits that outlive a consumer. */
export class MemoryLog implements Pick<Log, "consume"> {
  readonly partitions: number;
  readonly records = new Map<string, LogRecord[]>();
  readonly committed = new Map<string, Committed>();
  /** Called before each commit; may throw, which loses the commit. */
  onCommit: (topic: Topic, partition: number, entry: Committed) => void = () => undefined;
  readonly #pumps = new Set<() => void>();

  constructor(partitions: number) {
    this.partitions = partitions;
  }

  append(topic: Topic, key: string, value: Uint8Array): void {
    const partition = partitionOf(key, this.partitions);
    const records = this.#of(topic, partition);
    records.push({ topic, partition, offset: records.length, key, value, appendedAtMs: 0 });
    for (const pump of this.#pumps) pump();
  }

  committedOffset(topic: Topic): number {
    let sum = 0;
    for (let partition = 0; partition < this.partitions; partition += 1)
      sum += this.committed.get(`${topic}/${partition}`)?.offset ?? 0;
    return sum;
  }

  async consume(options: ConsumerOptions): Promise<LogConsumer> {
    let ended = false;
    const owned: OwnedPartition[] = [];
    const pumps: (() => void)[] = [];
    for (let partition = 0; partition < this.partitions; partition += 1) {
      const part = this.#own(partition, () => !ended);
      owned.push(part);
      await options.onAssigned(part);
      for (const topic of options.topics) pumps.push(this.#pump(part, topic, options, () => ended));
    }
    for (const pump of pumps) {
      this.#pumps.add(pump);
      pump();
    }
    return {
      lag: async () => new Map(),
      async [Symbol.asyncDispose]() {
        ended = true;
        await Promise.all(owned.map((part) => options.onRevoked(part)));
      },
    };
  }

  #of(topic: Topic, partition: number): LogRecord[] {
    const key = `${topic}/${partition}`;
    const found = this.records.get(key) ?? [];
    this.records.set(key, found);
    return found;
  }

  #pump(part: OwnedPartition, topic: Topic, options: ConsumerOptions, ended: () => boolean) {
    let at = part.committed(topic)?.offset ?? 0;
    let running = false;
    return (): void => {
      if (running) return;
      running = true;
      void (async () => {
        const records = this.#of(topic, part.partition);
        while (!ended() && at < records.length) {
          const slice = records.slice(at, at + 500);
          at += slice.length;
          await options.onRecords(part, topic, slice);
        }
        running = false;
      })();
    };
  }

  #own(partition: number, owns: () => boolean): OwnedPartition {
    return {
      partition,
      partitions: this.partitions,
      owned: owns,
      exclusive: owns,
      committed: (topic) => this.committed.get(`${topic}/${partition}`) ?? null,
      endOffset: async (topic) => this.#of(topic, partition).length,
      async *read() {},
      commit: async (entries) => {
        for (const { topic, offset, metadata = "" } of entries) {
          this.onCommit(topic, partition, { offset, metadata });
          this.committed.set(`${topic}/${partition}`, { offset, metadata });
        }
      },
    };
  }
}
