import { RingQueue } from "../../domain/ring-queue.ts";
import { TOPIC_IDS } from "./layout.ts";
import type { Row, StreamId } from "./layout.ts";

/** A stream in one number. */
const streamNumber = ({ topic, partition }: StreamId): number =>
  TOPIC_IDS[topic] * 65_536 + partition;

interface WaitingCommit {
  readonly id: number;
  readonly rows: readonly Row[];
  readonly blobCount: number;
}

interface Blob {
  readonly seq: number;
  readonly bytes: Buffer;
}

/** Commits that are durable in a segment, but that a reader of LMDB may not see yet; later in every stream than all others. */
export class WaitingCommits {
  readonly #commits = new RingQueue<WaitingCommit>();
  /** One for each stream that there ever was: topics times partitions. */
  readonly #byStream = new Map<number, RingQueue<Row>>();
  /** In the order of their numbers. */
  readonly #blobs = new RingQueue<Blob>();
  #appliedId = 0;

  /** In the order of their ids, with blobs in the order of their numbers. One that is in LMDB already is not taken. */
  add(
    id: number,
    rows: readonly Row[],
    blobs: readonly (readonly [seq: number, bytes: Buffer])[],
  ): void {
    if (id <= this.#appliedId) return;
    this.#commits.push({ id, rows, blobCount: blobs.length });
    for (const [seq, bytes] of blobs) this.#blobs.push({ seq, bytes });
    for (const row of rows) this.#rowsOf(row).push(row);
  }

  /** Readers of LMDB see this commit and all before it. */
  applied(id: number): void {
    this.#appliedId = id;
    for (
      let oldest = this.#commits.at(0);
      oldest && oldest.id <= id;
      oldest = this.#commits.at(0)
    ) {
      this.#commits.shift();
      for (const row of oldest.rows) this.#rowsOf(row).shift();
      for (let left = oldest.blobCount; left > 0; left -= 1) this.#blobs.shift();
    }
  }

  /** The files were opened anew: everything is in LMDB. */
  clear(): void {
    this.#commits.clear();
    this.#byStream.clear();
    this.#blobs.clear();
  }

  /** Those that hold offsets from `offset` on, oldest first. */
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

  blob(seq: number): Buffer | null {
    const found = this.#blobs.at(this.#blobs.lowerBound((blob) => blob.seq >= seq));
    return found?.seq === seq ? found.bytes : null;
  }

  #rowsOf(stream: StreamId): RingQueue<Row> {
    const number = streamNumber(stream);
    let rows = this.#byStream.get(number);
    if (rows === undefined) this.#byStream.set(number, (rows = new RingQueue()));
    return rows;
  }
}
