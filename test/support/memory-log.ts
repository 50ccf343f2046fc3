import { LogError } from "../../src/domain/log.ts";
import type {
  ConsumerOptions,
  Log,
  LogConsumer,
  LogRecord,
  NewRecord,
  OwnedPartition,
  Position,
  Topic,
} from "../../src/domain/log.ts";
import type { Clock, Random } from "../../src/domain/clock.ts";
import { partitionOf } from "../../src/pipeline/log/partition.ts";

const BATCH_RECORDS = 50;
const REVOKE_LIMIT_MS = 5_000;

export interface MemoryLogFaults {
  /** Simulated time that one append takes. */
  appendMs(): number;
  /** `lost`: not written, the caller is told so. `unknown`: written, but the caller is told that nobody knows. */
  appendFate(): "ok" | "lost" | "unknown";
  /** The records of one call and different topics are not written together: only the first so many. */
  tornAt(records: number): number;
}

const NO_FAULTS: MemoryLogFaults = {
  appendMs: () => 1,
  appendFate: () => "ok",
  tornAt: (records) => records,
};

interface Committed {
  readonly offset: number;
  readonly metadata: string;
}

interface Member {
  readonly process: MemoryProcess;
  readonly options: ConsumerOptions;
  readonly owned: Map<number, Ownership>;
}

interface Group {
  readonly committed: Map<string, Committed>;
  members: Member[];
  rebalancing: Promise<void>;
}

/** One process that uses the log: it can die at any moment. */
export interface MemoryProcess {
  readonly name: string;
  alive: boolean;
}

/** What is durable: it outlives every process. Everything runs on a (simulated) clock. */
export class MemoryLogStore {
  #partitions: number;
  readonly clock: Clock;
  readonly random: Random;
  faults: MemoryLogFaults = NO_FAULTS;
  readonly #records = new Map<string, LogRecord[]>();
  readonly #groups = new Map<string, Group>();
  readonly #pumps = new Map<string, Set<() => void>>();

  constructor(partitions: number, clock: Clock, random: Random) {
    this.#partitions = partitions;
    this.clock = clock;
    this.random = random;
  }

  get partitions(): number {
    return this.#partitions;
  }

  /** Adds partitions while no process consumes: the next ones own them all. */
  grow(partitions: number): void {
    this.#partitions = partitions;
  }

  records(topic: Topic, partition: number): LogRecord[] {
    const key = `${topic}/${partition}`;
    let list = this.#records.get(key);
    if (list === undefined) {
      list = [];
      this.#records.set(key, list);
    }
    return list;
  }

  all(topic: Topic): LogRecord[] {
    return Array.from({ length: this.partitions }, (_, partition) =>
      this.records(topic, partition),
    ).flat();
  }

  committed(group: string, topic: Topic, partition: number): Committed | null {
    return this.group(group).committed.get(`${topic}/${partition}`) ?? null;
  }

  group(name: string): Group {
    let group = this.#groups.get(name);
    if (group === undefined) {
      group = { committed: new Map(), members: [], rebalancing: Promise.resolve() };
      this.#groups.set(name, group);
    }
    return group;
  }

  write(records: readonly NewRecord[]): Position[] {
    const touched = new Set<string>();
    const positions = records.map((record) => {
      const partition = record.partition ?? partitionOf(record.key, this.partitions);
      const list = this.records(record.topic, partition);
      const { topic, key, value } = record;
      const offset = list.length;
      list.push({ topic, partition, offset, key, value, appendedAtMs: this.clock.now() });
      touched.add(`${topic}/${partition}`);
      return { partition, offset };
    });
    for (const key of touched) for (const wake of this.#pumps.get(key) ?? []) wake();
    return positions;
  }

  onAppend(topic: Topic, partition: number, wake: () => void): () => void {
    const key = `${topic}/${partition}`;
    const wakes = this.#pumps.get(key) ?? new Set();
    this.#pumps.set(key, wakes.add(wake));
    return () => wakes.delete(wake);
  }

  /** The log as one process sees it. */
  open(process: MemoryProcess): Log {
    return {
      partitions: this.partitions,
      append: (records) => this.#append(process, records),
      consume: (options) => this.#consume(process, options),
      check: () => Promise.resolve(),
      [Symbol.asyncDispose]: () => Promise.resolve(),
    };
  }

  /** The process is gone without a word: its partitions go to others after the session is over. */
  async kill(process: MemoryProcess, sessionMs: number): Promise<void> {
    process.alive = false;
    for (const group of this.#groups.values())
      for (const member of group.members)
        if (member.process === process) for (const one of member.owned.values()) one.lose();
    await new Promise<void>((resolve) => this.clock.schedule(sessionMs, resolve));
    for (const group of this.#groups.values()) {
      const left = group.members.filter((member) => member.process !== process);
      if (left.length < group.members.length) {
        group.members = left;
        await this.#rebalance(group);
      }
    }
  }

  /** Moves every partition on. `eager`: the next owner does not wait for the last one's goodbye. */
  async rotate(groupName: string, eager: boolean): Promise<void> {
    const group = this.group(groupName);
    const [first, ...rest] = group.members;
    if (first !== undefined) group.members = [...rest, first];
    await this.#rebalance(group, eager);
  }

  #append(process: MemoryProcess, records: readonly NewRecord[]): Promise<readonly Position[]> {
    const { promise, resolve, reject } = withResolvers<readonly Position[]>();
    const fate = this.faults.appendFate();
    this.clock.schedule(this.faults.appendMs(), () => {
      if (fate === "lost") {
        if (process.alive) reject(new LogError("log_unavailable", "the log is away"));
        return;
      }
      // A process that dies during an append may leave a part of it, unless the log writes calls whole.
      const count = process.alive ? records.length : this.faults.tornAt(records.length);
      const positions = this.write(records.slice(0, count));
      if (!process.alive) return;
      if (fate === "unknown") reject(new LogError("log_outcome_unknown", "no answer"));
      else resolve(positions);
    });
    return promise;
  }

  async #consume(process: MemoryProcess, options: ConsumerOptions): Promise<LogConsumer> {
    const group = this.group(options.group);
    const member: Member = { process, options, owned: new Map() };
    group.members = [...group.members, member];
    await this.#rebalance(group);
    return {
      lag: () => Promise.resolve(new Map()),
      [Symbol.asyncDispose]: async () => {
        group.members = group.members.filter((other) => other !== member);
        const revoked = [...member.owned.values()];
        member.owned.clear();
        await Promise.all(revoked.map((one) => this.#revoke(member, one)));
        await this.#rebalance(group);
      },
    };
  }

  /** One rebalance at a time. */
  #rebalance(group: Group, eager = false): Promise<void> {
    group.rebalancing = group.rebalancing.then(() => this.#rebalanceNow(group, eager));
    return group.rebalancing;
  }

  async #rebalanceNow(group: Group, eager: boolean): Promise<void> {
    const live = group.members.filter((member) => member.process.alive);
    const revocations: Promise<void>[] = [];
    for (const member of group.members)
      for (const [partition, ownership] of member.owned) {
        if (!member.process.alive) continue;
        if (live[partition % live.length] === member) continue;
        member.owned.delete(partition);
        revocations.push(this.#revoke(member, ownership));
      }
    if (!eager) await Promise.all(revocations);
    const ownedNow = new Set(live.flatMap((member) => [...member.owned.keys()]));
    const assignments: Promise<void>[] = [];
    for (let partition = 0; partition < this.partitions && live.length > 0; partition += 1) {
      const member = live[partition % live.length]!;
      // A member that died keeps its partitions until its session is over.
      const ofTheDead = group.members.some(
        (other) => !other.process.alive && other.owned.has(partition),
      );
      if (ownedNow.has(partition) || ofTheDead) continue;
      const ownership = new Ownership(this, group, member, partition);
      member.owned.set(partition, ownership);
      assignments.push(ownership.begin());
    }
    await Promise.race([
      Promise.all(assignments),
      new Promise<void>((resolve) => this.clock.schedule(60_000, resolve)),
    ]);
  }

  async #revoke(member: Member, ownership: Ownership): Promise<void> {
    ownership.lose();
    if (!member.process.alive) return;
    await Promise.race([
      member.options.onRevoked(ownership),
      new Promise<void>((resolve) => this.clock.schedule(REVOKE_LIMIT_MS, resolve)),
    ]);
    ownership.end();
  }
}

class Ownership implements OwnedPartition {
  readonly partition: number;
  readonly #store: MemoryLogStore;
  readonly #group: Group;
  readonly #member: Member;
  readonly #paused = new Set<Topic>();
  readonly #before: Map<string, Committed>;
  #owned = true;
  #ended = false;
  readonly #stops = new Set<() => void>();

  constructor(store: MemoryLogStore, group: Group, member: Member, partition: number) {
    this.#store = store;
    this.#group = group;
    this.#member = member;
    this.partition = partition;
    this.#before = new Map(group.committed);
  }

  async begin(): Promise<void> {
    await this.#member.options.onAssigned(this);
    for (const topic of this.#member.options.topics) void this.#pump(topic);
  }

  owned(): boolean {
    return this.#owned && this.#member.process.alive;
  }

  lose(): void {
    this.#owned = false;
    for (const stop of this.#stops) stop();
  }

  end(): void {
    this.#ended = true;
  }

  committed(topic: Topic): Committed | null {
    return this.#before.get(`${topic}/${this.partition}`) ?? null;
  }

  endOffset(topic: Topic): Promise<number> {
    return Promise.resolve(this.#store.records(topic, this.partition).length);
  }

  async *read(topic: Topic, fromOffset: number): AsyncIterable<readonly LogRecord[]> {
    const end = this.#store.records(topic, this.partition).length;
    for (let at = fromOffset; at < end; at += BATCH_RECORDS) {
      await this.#sleep(0.2);
      yield this.#store.records(topic, this.partition).slice(at, Math.min(end, at + BATCH_RECORDS));
    }
  }

  async commit(
    entries: readonly {
      readonly topic: Topic;
      readonly offset: number;
      readonly metadata?: string;
    }[],
  ): Promise<void> {
    await this.#sleep(this.#store.faults.appendMs());
    if (this.#store.faults.appendFate() === "lost")
      throw new LogError("log_unavailable", "the log is away");
    if (this.#ended || !this.#member.process.alive) return;
    // Another owner's commits are never overwritten.
    const current = this.#group.members.some((other) => other.owned.get(this.partition) === this);
    const replaced = this.#group.members.some((other) => other.owned.has(this.partition));
    if (!current && replaced) return;
    for (const { topic, offset, metadata } of entries)
      this.#group.committed.set(`${topic}/${this.partition}`, { offset, metadata: metadata ?? "" });
  }

  pause(topic: Topic): void {
    this.#paused.add(topic);
  }

  resume(topic: Topic): void {
    this.#paused.delete(topic);
    for (const stop of this.#stops) stop();
  }

  #sleep(delayMs: number): Promise<void> {
    return new Promise((resolve) => {
      this.#store.clock.schedule(delayMs, () => {
        if (this.#member.process.alive) resolve();
      });
    });
  }

  async #pump(topic: Topic): Promise<void> {
    let at = this.committed(topic)?.offset ?? 0;
    while (this.owned()) {
      const list = this.#store.records(topic, this.partition);
      if (at >= list.length || this.#paused.has(topic)) {
        await new Promise<void>((resolve) => {
          const off = this.#store.onAppend(topic, this.partition, () => stop());
          const stop = (): void => {
            off();
            this.#stops.delete(stop);
            resolve();
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

function withResolvers<T>(): {
  promise: Promise<T>;
  resolve: (value: T) => void;
  reject: (error: unknown) => void;
} {
  let resolve!: (value: T) => void;
  let reject!: (error: unknown) => void;
  const promise = new Promise<T>((yes, no) => {
    resolve = yes;
    reject = no;
  });
  return { promise, resolve, reject };
}
