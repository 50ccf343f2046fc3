import { TOPICS } from "../../../domain/log.ts";
import type { Topic } from "../../../domain/log.ts";
import type { CommitStore } from "../store.ts";
import { StreamState } from "./stream-state.ts";

/** All streams of the log, by topic and partition. */
export class StreamTable {
  readonly partitions: number;
  readonly #store: CommitStore;
  readonly #byTopic = new Map<Topic, StreamState[]>();

  constructor(store: CommitStore, partitions: number) {
    this.#store = store;
    this.partitions = partitions;
    for (const topic of TOPICS)
      this.#byTopic.set(
        topic,
        Array.from({ length: partitions }, (_, partition) => new StreamState(topic, partition)),
      );
    this.reload();
  }

  get(topic: Topic, partition: number): StreamState {
    const stream = this.#byTopic.get(topic)?.[partition];
    if (stream === undefined)
      throw new RangeError(`there is no partition ${partition} of ${topic}`);
    return stream;
  }

  /** Reads from disk where every stream starts and ends, and tells its readers: there may be more than was answered. */
  reload(): void {
    for (const stream of this.all()) {
      const startOffset = this.#store.startOffset(stream);
      const endOffset = this.#store.lastRow(stream)?.next ?? startOffset;
      stream.reset(startOffset, endOffset);
      stream.notify();
    }
  }

  *all(): Iterable<StreamState> {
    for (const streams of this.#byTopic.values()) yield* streams;
  }
}
