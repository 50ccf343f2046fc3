import { TOPIC_IDS } from "./layout.ts";
import type { Row, StreamId } from "./layout.ts";

/** A stream in one number. */
const streamNumber = ({ topic, partition }: StreamId): number =>
  TOPIC_IDS[topic] * 65_536 + partition;

/** Rows of the latest commits that are durable but not in the index yet; later in every stream than all that are. */
export class UnindexedRows {
  readonly #byStream = new Map<number, Row[]>();
  #all: Row[] = [];
  #commits: number[] = [];

  get count(): number {
    return this.#all.length;
  }

  /** Oldest first. */
  get all(): readonly Row[] {
    return this.#all;
  }

  /** By the number of their first blob. */
  get commits(): readonly number[] {
    return this.#commits;
  }

  add(commit: number, rows: readonly Row[]): void {
    this.#commits.push(commit);
    for (const row of rows) {
      this.#all.push(row);
      const number = streamNumber(row);
      const ofStream = this.#byStream.get(number);
      if (ofStream === undefined) this.#byStream.set(number, [row]);
      else ofStream.push(row);
    }
  }

  clear(): void {
    this.#byStream.clear();
    this.#all = [];
    this.#commits = [];
  }

  /** Those that hold offsets from `offset` on. */
  from(stream: StreamId, offset: number): readonly Row[] {
    const rows = this.#byStream.get(streamNumber(stream)) ?? [];
    const first = rows.findIndex((row) => row.next > offset);
    return first < 0 ? [] : rows.slice(first);
  }

  last(stream: StreamId): Row | null {
    return this.#byStream.get(streamNumber(stream))?.at(-1) ?? null;
  }
}
