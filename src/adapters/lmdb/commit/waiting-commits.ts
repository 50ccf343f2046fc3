import { TOPIC_IDS } from "../layout.ts";
import type { Row, StreamId } from "../layout.ts";
import { RowRing } from "../row-ring.ts";

/** Returns a stream as one number. */
const streamNumber = ({ topic, partition }: StreamId): number =>
  TOPIC_IDS[topic] * 65_536 + partition;

/** Rows of commits that are durable in a segment, but that a reader of LMDB may not see yet; they follow all other rows of their streams. */
export class WaitingCommits {
  /** One for each stream that ever had a row, topics times partitions at most; rows are tagged with the id of their commit. */
  readonly #byStream = new Map<number, RowRing>();
  #appliedId = 0;

  /** Takes commits in the order of their ids, but none that is in LMDB already. */
  add(id: number, rows: readonly Row[]): void {
    if (id <= this.#appliedId) return;
    for (const row of rows) this.#rowsOf(row).push(row, id);
  }

  /** Drops this commit and all before it: readers of LMDB see them. */
  applied(id: number): void {
    this.#appliedId = id;
    for (const rows of this.#byStream.values()) rows.dropTagged(id);
  }

  /** Forgets everything: the files were reopened, so all of it is in LMDB. */
  clear(): void {
    this.#byStream.clear();
  }

  /** Returns the rows that hold offsets from `offset` on, oldest first. */
  from(stream: StreamId, offset: number): readonly Row[] {
    return this.#byStream.get(streamNumber(stream))?.from(offset) ?? [];
  }

  last(stream: StreamId): Row | null {
    const rows = this.#byStream.get(streamNumber(stream));
    return rows?.at(rows.size - 1) ?? null;
  }

  #rowsOf(stream: StreamId): RowRing {
    const number = streamNumber(stream);
    let rows = this.#byStream.get(number);
    if (rows === undefined) this.#byStream.set(number, (rows = new RowRing(stream)));
    return rows;
  }
}
