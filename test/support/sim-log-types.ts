import type { Clock } from "../../src/domain/clock.ts";
import type { LogRecord, Topic } from "../../src/domain/log.ts";

export interface MemoryLogFaults {
  /** Returns the simulated time that an append takes. */
  appendMs(): number;
  /** Decides an append's fate. `lost`: not written, and it fails. `unknown`: written, but it fails with an unknown outcome. */
  appendFate(): "ok" | "lost" | "unknown";
  /**
   * Picks which of an append's partitions (`topic/number`) keep their part of it when its process dies meanwhile. Each broker
   * takes what it leads, in any order.
   */
  torn(slots: readonly string[]): ReadonlySet<string>;
  /** Returns how many offsets stay empty before a record (compaction, transaction markers). */
  gap?(topic: Topic): number;
}

/** A process that uses the log: it can die or freeze at any moment. */
export interface MemoryProcess {
  readonly name: string;
  alive: boolean;
  /** Frozen until then: nothing of it runs. */
  wakesAtMs?: number;
  /** Until then it must assume that its session is over, since its heartbeats are late, though no other owns its partitions. */
  inDoubtUntilMs?: number;
  /** Whether its reads on demand fail. */
  readsFail?: boolean;
}

/** A commit that moved a topic's watermark. */
export interface CommitNote {
  readonly group: string;
  readonly topic: Topic;
  readonly partition: number;
  readonly offset: number;
  readonly atMs: number;
}

/** What a partition needs from its log. */
export interface SimStore {
  readonly clock: Clock;
  readonly partitions: number;
  readonly faults: MemoryLogFaults;
  records(topic: Topic, partition: number): LogRecord[];
  endOffset(topic: Topic, partition: number): number;
  onAppend(topic: Topic, partition: number, wake: () => void): () => void;
  whenAwake(process: MemoryProcess, run: () => void): void;
}

/** Returns the index of the record at this offset, or of the first one after it. */
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
