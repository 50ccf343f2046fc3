import type { OwnedPartition } from "../../domain/log.ts";
import { MAX_PLAN_PARTITIONS, makePlan, type BatchPlan, type OffsetRange } from "./batch-plan.ts";

export interface Entry<Row> {
  readonly offset: number;
  /** Null for a record without a row: it only moves the offset on. */
  readonly row: Row | null;
  readonly sizeBytes: number;
}

export interface Batch<Row> {
  readonly plan: BatchPlan;
  readonly rows: readonly Row[];
  /** One for each range of the plan, in the same order. */
  readonly partitions: readonly OwnedPartition[];
}

interface PartitionQueue<Row> {
  readonly owned: OwnedPartition;
  entries: Entry<Row>[];
  /** A batch that an earlier owner may have inserted; nothing else is taken before it. */
  plan: BatchPlan | null;
  /** Number of the last batch with records of this partition. */
  takenIn: number;
}

export interface BatchLimits {
  readonly maxRows: number;
  readonly maxBytes: number;
}

/** Records that wait for the next insert, by partition. Pure bookkeeping: no time, no I/O. */
export class BatchBuffer<Row> {
  readonly #topic: string;
  readonly #queues = new Map<number, PartitionQueue<Row>>();
  #rows = 0;
  #bytes = 0;
  #batches = 0;

  constructor(topic: string) {
    this.#topic = topic;
  }

  get rows(): number {
    return this.#rows;
  }

  get bytes(): number {
    return this.#bytes;
  }

  add(owned: OwnedPartition, plan: BatchPlan | null): void {
    this.#queues.set(owned.partition, { owned, entries: [], plan, takenIn: 0 });
  }

  /** Forgets the records of a partition that another owner has now. */
  remove(owned: OwnedPartition): void {
    const queue = this.#queues.get(owned.partition);
    if (queue?.owned !== owned) return;
    this.#forget(queue.entries);
    this.#queues.delete(owned.partition);
  }

  push(owned: OwnedPartition, entries: readonly Entry<Row>[]): void {
    const queue = this.#queues.get(owned.partition);
    if (queue?.owned !== owned) return;
    for (const entry of entries) {
      queue.entries.push(entry);
      this.#rows += 1;
      this.#bytes += entry.sizeBytes;
    }
  }

  hasPlans(): boolean {
    return [...this.#queues.values()].some((queue) => queue.plan !== null);
  }

  /** Gives up on plans that cannot be completed here (another process has one of their partitions). */
  dropPlans(): void {
    for (const queue of this.#queues.values()) queue.plan = null;
  }

  /** Takes a planned batch whose partitions and records are all here; null when there is none. */
  takePlanned(): Batch<Row> | null {
    for (const { plan } of this.#queues.values()) {
      if (plan === null || !plan.ranges.every((range) => this.#covers(plan, range))) continue;
      return this.#take(plan);
    }
    return null;
  }

  /**
   * Takes the oldest records of all partitions in turn, up to the limits; null when nothing may be taken. Partitions that the
   * limits left out come first the next time: a few large records fill a batch, and one partition may always have more of them.
   */
  take(limits: BatchLimits): Batch<Row> | null {
    const ends = new Map<number, number>();
    let rows = 0;
    let bytes = 0;
    const ready = [...this.#queues.values()]
      .filter((queue) => queue.plan === null && queue.entries.length > 0)
      .sort((a, b) => a.takenIn - b.takenIn || b.entries.length - a.entries.length)
      .slice(0, MAX_PLAN_PARTITIONS);
    const share = Math.max(1, Math.ceil(limits.maxRows / Math.max(1, ready.length)));
    for (let from = 0; rows < limits.maxRows && bytes < limits.maxBytes; from += share) {
      let taken = 0;
      for (const queue of ready)
        for (let at = from; at < Math.min(from + share, queue.entries.length); at += 1) {
          if (rows >= limits.maxRows || bytes >= limits.maxBytes) break;
          const entry = queue.entries[at]!;
          rows += 1;
          taken += 1;
          bytes += entry.sizeBytes;
          ends.set(queue.owned.partition, entry.offset + 1);
        }
      if (taken === 0) break;
    }
    if (ends.size === 0) return null;
    const ranges = [...ends].map(([partition, to]) => ({
      partition,
      from: this.#queues.get(partition)!.entries[0]!.offset,
      to,
    }));
    return this.#take(makePlan(this.#topic, ranges));
  }

  #covers(plan: BatchPlan, { partition, to }: OffsetRange): boolean {
    const queue = this.#queues.get(partition);
    if (queue === undefined || queue.plan?.key !== plan.key) return false;
    return (queue.entries.at(-1)?.offset ?? -1) >= to - 1;
  }

  /** Takes a plan's records in its order, so that a repeated batch has its rows in the same order. */
  #take(plan: BatchPlan): Batch<Row> {
    const rows: Row[] = [];
    const partitions: OwnedPartition[] = [];
    this.#batches += 1;
    for (const { partition, to } of plan.ranges) {
      const queue = this.#queues.get(partition)!;
      let count = 0;
      while (count < queue.entries.length && queue.entries[count]!.offset < to) count += 1;
      const taken = queue.entries.slice(0, count);
      queue.entries = queue.entries.slice(count);
      queue.plan = null;
      queue.takenIn = this.#batches;
      for (const { row } of taken) if (row !== null) rows.push(row);
      this.#forget(taken);
      partitions.push(queue.owned);
    }
    return { plan, rows, partitions };
  }

  #forget(entries: readonly Entry<Row>[]): void {
    this.#rows -= entries.length;
    for (const entry of entries) this.#bytes -= entry.sizeBytes;
  }
}
