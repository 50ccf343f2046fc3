import type { Topic } from "../../../domain/log.ts";
import type { Row, StreamId } from "../layout.ts";
import { RowRing } from "../row-ring.ts";

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
  readonly #tail: RowRing;

  constructor(topic: Topic, partition: number) {
    this.topic = topic;
    this.partition = partition;
    this.#tail = new RowRing(this);
  }

  /** Begins again with what is on disk. */
  reset(startOffset: number, endOffset: number): void {
    this.startOffset = startOffset;
    this.endOffset = endOffset;
    this.#tail.clear();
  }

  appended(row: Row): void {
    this.endOffset = row.next;
    if (this.#tail.size === TAIL_ROWS) this.#tail.shift();
    this.#tail.push(row);
  }

  /** Forgets rows below `offset`: they were trimmed, or rewritten by a compaction. */
  forgetBelow(offset: number): void {
    this.#tail.dropBelow(offset);
  }

  /** Returns the kept rows from `offset` on, at most `limit`; null if the index must be asked. */
  tailFrom(offset: number, limit: number): readonly Row[] | null {
    const first = this.#tail.at(0);
    return first === undefined || offset < first.base ? null : this.#tail.from(offset, limit);
  }

  /** Calls back after every append and reload, until the returned function is called. */
  listen(listener: () => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  notify(): void {
    for (const listener of this.#listeners) listener();
  }
}
