import type { Topic } from "../../../domain/log.ts";
import type { Row, StreamId } from "../layout.ts";

/** Rows kept in memory per stream, so that consumers at the tail need no index lookup. */
const TAIL_ROWS = 256;

/** What is known of one (topic, partition) without asking LMDB. Changes only after a durable commit. */
export class StreamState implements StreamId {
  readonly topic: Topic;
  readonly partition: number;
  /** First offset that was not trimmed. */
  startOffset = 0;
  /** Offset of the next record. */
  endOffset = 0;
  readonly #listeners = new Set<() => void>();
  #tail: Row[] = [];

  constructor(topic: Topic, partition: number) {
    this.topic = topic;
    this.partition = partition;
  }

  /** Begins again with what is on disk. */
  reset(startOffset: number, endOffset: number): void {
    this.startOffset = startOffset;
    this.endOffset = endOffset;
    this.#tail = [];
  }

  appended(row: Row): void {
    this.endOffset = row.next;
    this.#tail.push(row);
    if (this.#tail.length > TAIL_ROWS * 2) this.#tail = this.#tail.slice(-TAIL_ROWS);
  }

  /** Forgets rows below `offset`: they were trimmed, or rewritten by a compaction. */
  forgetBelow(offset: number): void {
    this.#tail = this.#tail.filter((row) => row.base >= offset);
  }

  /** Returns the kept rows from `offset` on, at most `limit`; null if the index must be asked. */
  tailFrom(offset: number, limit: number): readonly Row[] | null {
    const first = this.#tail[0];
    if (first === undefined || offset < first.base) return null;
    let low = 0;
    let high = this.#tail.length;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (this.#tail[middle]!.next <= offset) low = middle + 1;
      else high = middle;
    }
    return this.#tail.slice(low, low + limit);
  }

  /** Calls back after every append, until the returned function is called. */
  listen(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  notify(): void {
    for (const listener of this.#listeners) listener();
  }
}
