import type { Position, Topic } from "../../../domain/log.ts";
import type { StreamTable } from "../streams/stream-table.ts";
import type { PackedRecord, StreamRecords } from "./pack-commit.ts";

export interface PreparedRecord {
  readonly topic: Topic;
  readonly partition: number;
  readonly keyBytes: Uint8Array;
  readonly value: Uint8Array;
}

/** Gives out offsets for one commit. */
export class Draft {
  readonly #streams: StreamTable;
  readonly #now: number;
  readonly #byStream = new Map<
    string,
    { topic: Topic; partition: number; base: number; next: number; records: PackedRecord[] }
  >();

  constructor(streams: StreamTable, now: number) {
    this.#streams = streams;
    this.#now = now;
  }

  add(records: readonly PreparedRecord[]): readonly Position[] {
    return records.map(({ topic, partition, keyBytes, value }) => {
      const id = `${topic}/${partition}`;
      let stream = this.#byStream.get(id);
      if (stream === undefined) {
        const base = this.#streams.get(topic, partition).endOffset;
        stream = { topic, partition, base, next: base, records: [] };
        this.#byStream.set(id, stream);
      }
      const offset = stream.next++;
      stream.records.push({ offset, keyBytes, value, appendedAtMs: this.#now });
      return { partition, offset };
    });
  }

  streamRecords(): StreamRecords[] {
    return [...this.#byStream.values()];
  }
}
