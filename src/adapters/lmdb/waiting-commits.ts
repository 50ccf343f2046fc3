import { TOPIC_IDS } from "./layout.ts";
import type { Row, StreamId } from "./layout.ts";

/** A stream in one number. */
const streamNumber = ({ topic, partition }: StreamId): number =>
  TOPIC_IDS[topic] * 65_536 + partition;

interface WaitingCommit {
  readonly id: number;
  readonly rows: readonly Row[];
  readonly seqs: readonly number[];
}

/** Commits that are durable in a segment, but that a reader of LMDB may not see yet; later in every stream than all others. */
export class WaitingCommits {
  readonly #byStream = new Map<number, Row[]>();
  readonly #blobs = new Map<number, Buffer>();
  #commits: WaitingCommit[] = [];
  #appliedId = 0;

  /** In the order of their ids. One that is in LMDB already is not taken. */
  add(
    id: number,
    rows: readonly Row[],
    blobs: readonly (readonly [seq: number, bytes: Buffer])[],
  ): void {
    if (id <= this.#appliedId) return;
    this.#commits.push({ id, rows, seqs: blobs.map(([seq]) => seq) });
    for (const [seq, bytes] of blobs) this.#blobs.set(seq, bytes);
    for (const row of rows) {
      const number = streamNumber(row);
      const ofStream = this.#byStream.get(number);
      if (ofStream === undefined) this.#byStream.set(number, [row]);
      else ofStream.push(row);
    }
  }

  /** Readers of LMDB see this commit and all before it. */
  applied(id: number): void {
    this.#appliedId = id;
    const left = this.#commits.filter((commit) => commit.id > id);
    const gone = this.#commits.slice(0, this.#commits.length - left.length);
    this.#commits = left;
    if (left.length === 0) {
      this.#byStream.clear();
      this.#blobs.clear();
      return;
    }
    for (const { rows, seqs } of gone) {
      for (const seq of seqs) this.#blobs.delete(seq);
      for (const row of rows) this.#byStream.get(streamNumber(row))?.shift();
    }
  }

  /** The files were opened anew: everything is in LMDB. */
  clear(): void {
    this.#commits = [];
    this.#byStream.clear();
    this.#blobs.clear();
  }

  /** Those that hold offsets from `offset` on, oldest first. */
  from(stream: StreamId, offset: number): readonly Row[] {
    const rows = this.#byStream.get(streamNumber(stream)) ?? [];
    const first = rows.findIndex((row) => row.next > offset);
    return first < 0 ? [] : rows.slice(first);
  }

  last(stream: StreamId): Row | null {
    return this.#byStream.get(streamNumber(stream))?.at(-1) ?? null;
  }

  blob(seq: number): Buffer | null {
    return this.#blobs.get(seq) ?? null;
  }
}
