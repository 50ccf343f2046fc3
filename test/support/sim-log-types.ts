import type { Clock } from "../../src/domain/clock.ts";
import type { LogRecord, Topic } from "../../src/domain/log.ts";

export interface MemoryLogFaults {
  /** Simulated time that one append takes. */
  appendMs(): number;
  /** `lost`: not written, the caller is told so. `unknown`: written, but the caller is told that nobody knows. */
  appendFate(): "ok" | "lost" | "unknown";
  /**
   * Of one call whose process dies meanwhile: which of the partitions (`topic/number`) it goes to have their part of it. Each broker takes
   * what it leads, in whatever order.
   */
  torn(slots: readonly string[]): ReadonlySet<string>;
  /** How many offsets stay empty before a record (compaction, markers of transactions). */
  gap?(topic: Topic): number;
}

/** One process that uses the log: it can die, or stand still, at any moment. */
export interface MemoryProcess {
  readonly name: string;
  alive: boolean;
  /** Stands still until then: nothing of it runs. */
  wakesAtMs?: number;
  /** Until then it has to take its session for over, though nobody else owns what it owned: its heartbeats are late. */
  inDoubtUntilMs?: number;
  /** What it reads on demand fails. */
  readsFail?: boolean;
}

/** A commit that moved the watermark of a topic on. */
export interface CommitNote {
  readonly group: string;
  readonly topic: Topic;
  readonly partition: number;
  readonly offset: number;
  readonly atMs: number;
}

/** What a partition needs of the log that it is a part of. */
export interface SimStore {
  readonly clock: Clock;
  readonly partitions: number;
  readonly faults: MemoryLogFaults;
  records(topic: Topic, partition: number): LogRecord[];
  endOffset(topic: Topic, partition: number): number;
  onAppend(topic: Topic, partition: number, wake: () => void): () => void;
  whenAwake(process: MemoryProcess, run: () => void): void;
}

/** Where the record of this offset is in the list, or the first after it. */
export function indexAt(list: readonly LogRecord[], offset: number): number {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (list[middle]!.offset < offset) low = middle + 1;
    else high = middle;
  }
  return low;
}
