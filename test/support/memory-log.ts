import { LogError } from "../../src/domain/log.ts";
import type {
  CommitEntry,
  Committed,
  ConsumerOptions,
  Log,
  LogConsumer,
  LogRecord,
  NewRecord,
  Position,
  Topic,
} from "../../src/domain/log.ts";
import type { Clock, Random } from "../../src/domain/clock.ts";
import { partitionOf } from "../../src/domain/partition.ts";
import { SimPartition } from "./sim-log-partition.ts";
import type { Group, Member } from "./sim-log-partition.ts";
import type { CommitNote, MemoryLogFaults, MemoryProcess, SimStore } from "./sim-log-types.ts";

export type { MemoryProcess } from "./sim-log-types.ts";

const REVOKE_LIMIT_MS = 5_000;
const ASSIGN_LIMIT_MS = 3_000;

const NO_FAULTS: MemoryLogFaults = {
  appendMs: () => 1,
  appendFate: () => "ok",
  torn: (slots) => new Set(slots),
};

/** What is durable and outlives every process. Everything runs on a (simulated) clock. */
export class MemoryLogStore implements SimStore {
  /** How far ahead of all clocks records are stamped. */
  stampedAheadMs = 0;
  writesWhole = true;
  #partitions: number;
  readonly clock: Clock;
  readonly random: Random;
  faults: MemoryLogFaults = NO_FAULTS;
  /** Called when a process begins an append. */
  watchAppend: ((process: MemoryProcess, records: readonly NewRecord[]) => void) | null = null;
  readonly commits: CommitNote[] = [];
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

  /** Adds partitions: appends see them at once, groups at their next assignment. */
  grow(partitions: number): void {
    this.#partitions = partitions;
  }

  /** Revokes and reassigns everything owned, as when a member learns that there are more partitions. */
  async regroup(): Promise<void> {
    await Promise.all(
      [...this.#groups.values()].map((group) => {
        group.rebalancing = group.rebalancing.then(() => this.#revokeAll(group));
        return this.#rebalance(group);
      }),
    );
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

  endOffset(topic: Topic, partition: number): number {
    return (this.records(topic, partition).at(-1)?.offset ?? -1) + 1;
  }

  all(topic: Topic): LogRecord[] {
    return Array.from({ length: this.partitions }, (_, partition) =>
      this.records(topic, partition),
    ).flat();
  }

  committed(group: string, topic: Topic, partition: number): Committed | null {
    return this.group(group).committed.get(`${topic}/${partition}`) ?? null;
  }

  /** Makes a commit durable, and notes the watermarks that it moves. */
  commit(group: Group, partition: number, entries: readonly CommitEntry[]): void {
    for (const { topic, offset, metadata } of entries) {
      const key = `${topic}/${partition}`;
      if (group.committed.get(key)?.offset !== offset)
        this.commits.push({ group: group.name, topic, partition, offset, atMs: this.clock.now() });
      group.committed.set(key, { offset, metadata: metadata ?? "" });
    }
  }

  group(name: string): Group {
    let group = this.#groups.get(name);
    if (group === undefined) {
      group = { name, committed: new Map(), members: [], rebalancing: Promise.resolve() };
      this.#groups.set(name, group);
    }
    return group;
  }

  write(records: readonly NewRecord[]): Position[] {
    const touched = new Set<string>();
    const positions = records.map((record) => {
      const partition = this.#partitionOf(record);
      const list = this.records(record.topic, partition);
      const { topic, key, value } = record;
      const offset = this.endOffset(topic, partition) + (this.faults.gap?.(topic) ?? 0);
      const appendedAtMs = this.clock.now() + this.stampedAheadMs;
      list.push({ topic, partition, offset, key, value, appendedAtMs });
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

  /** Runs a function in the process once it is not frozen, at once if possible, and never if the process is dead by then. */
  whenAwake(process: MemoryProcess, run: () => void): void {
    const leftMs = (process.wakesAtMs ?? 0) - this.clock.now();
    if (leftMs > 0) this.clock.schedule(leftMs, () => this.whenAwake(process, run));
    else if (process.alive) run();
  }

  /** Opens the log as one process sees it. */
  open(process: MemoryProcess): Log {
    const partitions = (): number => this.partitions;
    return {
      get partitions() {
        return partitions();
      },
      learnPartitions: () => this.#pause(1),
      writesWhole: this.writesWhole,
      append: (records) => this.#append(process, records),
      consume: (options) => this.#consume(process, options),
      [Symbol.asyncDispose]: () => Promise.resolve(),
    };
  }

  /** Kills the process without notice: its partitions go to others once its session is over. */
  async kill(process: MemoryProcess, sessionMs: number): Promise<void> {
    process.alive = false;
    for (const group of this.#groups.values())
      for (const member of group.members)
        if (member.process === process) for (const one of member.owned.values()) one.lose();
    await this.#pause(sessionMs);
    for (const group of this.#groups.values()) {
      const left = group.members.filter((member) => member.process !== process);
      if (left.length < group.members.length) {
        group.members = left;
        await this.#rebalance(group);
      }
    }
  }

  /** Freezes the process: its partitions go to others if its session ends first, and it rejoins when it wakes. */
  async freeze(process: MemoryProcess, forMs: number, sessionMs: number): Promise<void> {
    process.wakesAtMs = this.clock.now() + forMs;
    if (forMs <= sessionMs) return;
    await this.#pause(sessionMs);
    const left: { group: Group; member: Member; lost: SimPartition[] }[] = [];
    for (const group of this.#groups.values())
      for (const member of group.members) {
        if (member.process !== process || !process.alive) continue;
        const lost = [...member.owned.values()];
        member.owned.clear();
        for (const one of lost) one.expire();
        left.push({ group, member, lost });
      }
    for (const { group, member } of left) {
      group.members = group.members.filter((other) => other !== member);
      void this.#rebalance(group);
    }
    this.whenAwake(process, () => {
      for (const { group, member, lost } of left)
        void Promise.all(lost.map((one) => this.#revoke(member, one))).then(() => {
          if (!process.alive || member.hasLeft) return;
          group.members = [...group.members, member];
          void this.#rebalance(group);
        });
    });
  }

  /** Moves every partition to the next member. `eager`: the new owner does not wait for the old one to finish. */
  async rotate(groupName: string, eager: boolean): Promise<void> {
    const group = this.group(groupName);
    const [first, ...rest] = group.members;
    if (first !== undefined) group.members = [...rest, first];
    await this.#rebalance(group, eager);
  }

  #append(process: MemoryProcess, records: readonly NewRecord[]): Promise<readonly Position[]> {
    const { promise, resolve, reject } = withResolvers<readonly Position[]>();
    const fate = this.faults.appendFate();
    const answer = (run: () => void): void => this.whenAwake(process, run);
    this.watchAppend?.(process, records);
    this.clock.schedule(this.faults.appendMs(), () => {
      if (fate === "lost") {
        answer(() => reject(new LogError("log_unavailable", "the log is away")));
        return;
      }
      const positions = this.write(process.alive ? records : this.#torn(records));
      answer(() => {
        if (fate === "unknown") reject(new LogError("log_outcome_unknown", "no answer"));
        else resolve(positions);
      });
    });
    return promise;
  }

  #partitionOf({ key, partition }: NewRecord): number {
    return partition ?? partitionOf(key, this.partitions);
  }

  /** Returns the records that remain of an append during which the process died. */
  #torn(records: readonly NewRecord[]): readonly NewRecord[] {
    const slotOf = (record: NewRecord): string => `${record.topic}/${this.#partitionOf(record)}`;
    const left = this.faults.torn([...new Set(records.map(slotOf))]);
    return records.filter((record) => left.has(slotOf(record)));
  }

  async #consume(process: MemoryProcess, options: ConsumerOptions): Promise<LogConsumer> {
    const group = this.group(options.group);
    const member: Member = { process, options, owned: new Map(), hasLeft: false };
    group.members = [...group.members, member];
    await this.#rebalance(group);
    return {
      lag: () => Promise.resolve(new Map()),
      [Symbol.asyncDispose]: async () => {
        member.hasLeft = true;
        group.members = group.members.filter((other) => other !== member);
        const revoked = [...member.owned.values()];
        member.owned.clear();
        await Promise.all(revoked.map((one) => this.#revoke(member, one)));
        await this.#rebalance(group);
      },
    };
  }

  /** Rebalances the group after any rebalance still under way. */
  #rebalance(group: Group, eager = false): Promise<void> {
    group.rebalancing = group.rebalancing.then(() => this.#rebalanceNow(group, eager));
    return group.rebalancing;
  }

  async #revokeAll(group: Group): Promise<void> {
    const revoked = group.members
      .filter(({ process }) => process.alive)
      .flatMap((member) => [...member.owned.values()].map((one) => ({ member, one })));
    for (const { member, one } of revoked) member.owned.delete(one.partition);
    await Promise.all(revoked.map(({ member, one }) => this.#revoke(member, one)));
  }

  async #rebalanceNow(group: Group, eager: boolean): Promise<void> {
    const live = group.members.filter((member) => member.process.alive);
    const revocations: Promise<void>[] = [];
    for (const member of group.members)
      for (const [partition, ownership] of member.owned) {
        if (!member.process.alive) continue;
        // All assignments go by the same number of partitions.
        const isCurrent = ownership.partitions === this.partitions;
        if (isCurrent && live[partition % live.length] === member) continue;
        member.owned.delete(partition);
        revocations.push(this.#revoke(member, ownership));
      }
    if (!eager) await Promise.all(revocations);
    // A member that was frozen for too long has left meanwhile.
    const stayed = live.filter((member) => group.members.includes(member) && member.process.alive);
    const ownedNow = new Set(stayed.flatMap((member) => [...member.owned.keys()]));
    const assignments: Promise<void>[] = [];
    for (let partition = 0; partition < this.partitions && stayed.length > 0; partition += 1) {
      const member = stayed[partition % stayed.length]!;
      // A member that died keeps its partitions until its session is over.
      const ofTheDead = group.members.some(
        (other) => !other.process.alive && other.owned.has(partition),
      );
      if (ownedNow.has(partition) || ofTheDead) continue;
      const ownership = new SimPartition(this, group, member, partition);
      member.owned.set(partition, ownership);
      assignments.push(ownership.begin());
    }
    // A member that dies meanwhile never reports that it has begun.
    await Promise.race([Promise.all(assignments), this.#pause(ASSIGN_LIMIT_MS)]);
  }

  async #revoke(member: Member, ownership: SimPartition): Promise<void> {
    ownership.lose();
    if (!member.process.alive) return;
    await Promise.race([
      new Promise<void>((resolve) =>
        this.whenAwake(
          member.process,
          () => void member.options.onRevoked(ownership).then(resolve),
        ),
      ),
      this.#pause(REVOKE_LIMIT_MS),
    ]);
    ownership.end();
  }

  #pause(delayMs: number): Promise<void> {
    return new Promise((resolve) => {
      this.clock.schedule(delayMs, resolve);
    });
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
