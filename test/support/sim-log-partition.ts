import { LogError } from "../../src/domain/log.ts";
import type {
  CommitEntry,
  Committed,
  ConsumerOptions,
  LogRecord,
  OwnedPartition,
  Topic,
} from "../../src/domain/log.ts";
import { indexAt } from "./sim-log-types.ts";
import type { MemoryProcess, SimStore } from "./sim-log-types.ts";

const BATCH_RECORDS = 50;

interface PartitionStore extends SimStore {
  commit(group: Group, partition: number, entries: readonly CommitEntry[]): void;
}

export interface Member {
  readonly process: MemoryProcess;
  readonly options: ConsumerOptions;
  readonly owned: Map<number, SimPartition>;
  /** It has stopped consuming, and does not come back. */
  hasLeft: boolean;
}

export interface Group {
  readonly name: string;
  readonly committed: Map<string, Committed>;
  members: Member[];
  rebalancing: Promise<void>;
}

/** One member's ownership of one partition number, until it is lost. */
export class SimPartition implements OwnedPartition {
  readonly partition: number;
  readonly partitions: number;
  readonly #store: PartitionStore;
  readonly #group: Group;
  readonly #member: Member;
  readonly #before: Map<string, Committed>;
  #owned = true;
  #ended = false;
  #isExpired = false;
  readonly #stops = new Set<() => void>();

  constructor(store: PartitionStore, group: Group, member: Member, partition: number) {
    this.#store = store;
    this.#group = group;
    this.#member = member;
    this.partition = partition;
    this.partitions = store.partitions;
    this.#before = new Map(group.committed);
  }

  async begin(): Promise<void> {
    await this.#member.options.onAssigned(this);
    for (const topic of this.#member.options.topics) void this.#pump(topic);
  }

  owned(): boolean {
    return this.#isHeld() && this.exclusive();
  }

  exclusive(): boolean {
    const { alive, inDoubtUntilMs = 0 } = this.#member.process;
    if (this.#ended || this.#isExpired || !alive || this.#isReplaced()) return false;
    return this.#store.clock.now() >= inDoubtUntilMs;
  }

  #isHeld(): boolean {
    return this.#owned && this.#member.process.alive;
  }

  lose(): void {
    this.#owned = false;
    for (const stop of this.#stops) stop();
  }

  end(): void {
    this.#ended = true;
  }

  /** Ends the session without notice. */
  expire(): void {
    this.#isExpired = true;
    this.lose();
  }

  committed(topic: Topic): Committed | null {
    return this.#before.get(`${topic}/${this.partition}`) ?? null;
  }

  endOffset(topic: Topic): Promise<number> {
    return Promise.resolve(this.#store.endOffset(topic, this.partition));
  }

  async *read(topic: Topic, fromOffset: number): AsyncIterable<readonly LogRecord[]> {
    const list = this.#store.records(topic, this.partition);
    const end = list.length;
    if (this.#member.process.readsFail === true)
      throw new LogError("log_unavailable", "the log is away");
    for (let at = indexAt(list, fromOffset); at < end; at += BATCH_RECORDS) {
      await this.#sleep(0.2);
      yield list.slice(at, Math.min(end, at + BATCH_RECORDS));
    }
  }

  async commit(entries: readonly CommitEntry[]): Promise<void> {
    await this.#sleep(this.#store.faults.appendMs());
    if (this.#store.faults.appendFate() === "lost")
      throw new LogError("log_unavailable", "the log is away");
    if (this.#ended || !this.#member.process.alive) return;
    // Another owner's commits are never overwritten.
    if (this.#isReplaced()) return;
    this.#store.commit(this.#group, this.partition, entries);
  }

  #isReplaced(): boolean {
    const { members } = this.#group;
    const isCurrent = members.some((other) => other.owned.get(this.partition) === this);
    return !isCurrent && members.some((other) => other.owned.has(this.partition));
  }

  #sleep(delayMs: number): Promise<void> {
    return new Promise((resolve) => {
      this.#store.clock.schedule(delayMs, () =>
        this.#store.whenAwake(this.#member.process, resolve),
      );
    });
  }

  async #pump(topic: Topic): Promise<void> {
    const list = this.#store.records(topic, this.partition);
    let at = indexAt(list, this.committed(topic)?.offset ?? 0);
    while (this.#isHeld()) {
      if (at >= list.length) {
        await new Promise<void>((resolve) => {
          const off = this.#store.onAppend(topic, this.partition, () => stop());
          const stop = (): void => {
            off();
            this.#stops.delete(stop);
            this.#store.whenAwake(this.#member.process, resolve);
          };
          this.#stops.add(stop);
        });
        continue;
      }
      const batch = list.slice(at, at + BATCH_RECORDS);
      at += batch.length;
      await this.#member.options.onRecords(this, topic, batch);
    }
  }
}
