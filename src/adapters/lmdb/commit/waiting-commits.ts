import { RingQueue } from "../../../domain/ring-queue.ts";
import { TOPIC_IDS } from "../layout.ts";
import type { Row, StreamId } from "../layout.ts";

/** Returns a stream as one number. */
const streamNumber = ({ topic, partition }: StreamId): number =>
  TOPIC_IDS[topic] * 65_536 + partition;

interface WaitingCommit {
  readonly id: number;
  readonly rows: readonly Row[];
}

/** Rows of commits that are durable in a segment, but that a reader of LMDB may not see yet; they follow all other rows of their streams. */
export class WaitingCommits {
  readonly #commits = new RingQueue<WaitingCommit>();
  /** One for each stream that ever had a row: topics times partitions at most. */
  readonly #byStream = new Map<number, RingQueue<Row>>();
  #appliedId = 0;

  /** Takes commits in the order of their ids, but none that is in LMDB already. */
  add(id: number, rows: readonly Row[]): void {
    if (id <= this.#appliedId) return;
    this.#commits.push({ id, rows });
    for (const row of rows) this.#rowsOf(row).push(row);
  }

  /** Drops this commit and all before it: readers of LMDB see them. */
  applied(id: number): void {
    this.#appliedId = id;
    for (
      let oldest = this.#commits.at(0);
      oldest && oldest.id <= id;
      oldest = this.#commits.at(0)
    ) {
      this.#commits.shift();
      for (const row of oldest.rows) this.#rowsOf(row).shift();
    }
  }

  /** Forgets everything: the files were reopened, so all of it is in LMDB. */
  clear(): void {
    this.#commits.clear();
    this.#byStream.clear();
  }

  /** Returns the rows that hold offsets from `offset` on, oldest first. */
  from(stream: StreamId, offset: number): readonly Row[] {
    const rows = this.#byStream.get(streamNumber(stream));
    if (rows === undefined) return [];
    const found: Row[] = [];
    for (let at = rows.lowerBound((row) => row.next > offset); at < rows.size; at += 1)
      found.push(rows.at(at)!);
    return found;
  }

  last(stream: StreamId): Row | null {
    const rows = this.#byStream.get(streamNumber(stream));
    return rows?.at(rows.size - 1) ?? null;
  }

  #rowsOf(stream: StreamId): RingQueue<Row> {
    const number = streamNumber(stream);
    let rows = this.#byStream.get(number);
    if (rows === undefined) this.#byStream.set(number, (rows = new RingQueue()));
    return rows;
  }
}
