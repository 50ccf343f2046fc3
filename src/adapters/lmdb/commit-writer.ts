import { asBinary } from "lmdb";
import type { CommitRequest } from "./commit-protocol.ts";
import { openEnvironment } from "./environment.ts";
import type { Environment } from "./environment.ts";
import { ROW_BYTES, ROW_KEY_BYTES, seqKey } from "./layout.ts";
import { RoomAhead } from "./room-ahead.ts";
import { WriteAheadFile } from "./write-ahead-file.ts";
import type { StoredCommit } from "./write-ahead-file.ts";

/** With so much in the write-ahead file it is put into LMDB: one large transaction instead of many small ones. */
const DUE_BYTES = 2 * 1024 * 1024;
const DUE_ROWS = 4_096;
const DUE_COMMITS = 1_000;
/** When LMDB could not take it (a full disk), it is tried again after so many commits. */
const RETRY_COMMITS = 100;
/** A larger commit goes into LMDB at once: written twice it would cost more than it saves. */
const MAX_AHEAD_BYTES = 1024 * 1024;
/** Under `groups`: the number of the latest commit that is in LMDB. */
const APPLIED_KEY = "applied";

interface LmdbStats {
  readonly lastPageNumber: number;
  readonly pageSize: number;
}

/**
 * Makes commits durable, on the commit thread: into the write-ahead file, and from there into LMDB many at a time.
 * What the file cannot take (too large, or it takes something away, or the file is full or broken) becomes one LMDB
 * transaction together with all that waits before it.
 */
export class CommitWriter {
  readonly #aheadPath: string;
  readonly #environment: Environment;
  readonly #room: RoomAhead;
  #ahead: WriteAheadFile | null = null;
  /** Number of the latest commit that is in LMDB, and of the latest one. */
  #applied: number;
  #latest: number;
  #waitingRows = 0;
  #retryAt = 0;

  /** Puts what an earlier process left in the write-ahead file into LMDB. @throws {Error} when the files cannot be opened */
  constructor(path: string, aheadPath: string, mapSizeBytes: number) {
    const environment = openEnvironment(path, mapSizeBytes);
    this.#aheadPath = aheadPath;
    this.#environment = environment;
    this.#room = new RoomAhead(path, () => {
      const { lastPageNumber, pageSize } = environment.root.getStats() as LmdbStats;
      return (lastPageNumber + 1) * pageSize;
    });
    this.#applied = Number(environment.groups.get(APPLIED_KEY) ?? 0);
    this.#latest = this.#applied;
    const waiting = this.#aheadFile()?.read(this.#applied + 1, Infinity).length ?? 0;
    this.#latest += waiting;
    if (waiting > 0) this.#transact(null, null);
  }

  /** Durable when it returns; true when it and all before it are in LMDB. @throws {Error} when it is not durable */
  commit(request: CommitRequest): boolean {
    const commit = toStored(request);
    if (onlyAdds(request) && this.#writtenAhead(commit)) return false;
    this.#transact(commit, request);
    return true;
  }

  /** Puts what waits into LMDB once it is much. False when nothing was done: also when LMDB could not, and it goes on waiting. */
  applyIfDue(): boolean {
    const waiting = this.#latest - this.#applied;
    const isDue =
      waiting >= DUE_COMMITS ||
      this.#waitingRows >= DUE_ROWS ||
      (this.#ahead?.sizeBytes ?? 0) >= DUE_BYTES;
    return isDue && this.#latest >= this.#retryAt && this.#tryToApply();
  }

  async close(): Promise<void> {
    if (this.#latest > this.#applied) this.#tryToApply();
    this.#room[Symbol.dispose]();
    this.#ahead?.[Symbol.dispose]();
    await this.#environment.root.close();
  }

  #tryToApply(): boolean {
    try {
      this.#transact(null, null);
      return true;
    } catch {
      this.#retryAt = this.#latest + RETRY_COMMITS;
      return false;
    }
  }

  #writtenAhead(commit: StoredCommit): boolean {
    if (blobBytes(commit) > MAX_AHEAD_BYTES) return false;
    try {
      if (this.#aheadFile()?.append(this.#latest + 1, commit) !== true) return false;
    } catch {
      // What of it is in the file does not count: the next commit has its number and its place.
      return false;
    }
    this.#latest += 1;
    this.#waitingRows += commit.rows.length / ROW_BYTES;
    return true;
  }

  /** Everything that waits and `newest` into LMDB, all or nothing. */
  #transact(newest: StoredCommit | null, request: CommitRequest | null): void {
    const waiting = this.#latest - this.#applied;
    const commits: StoredCommit[] = [];
    if (waiting > 0 && this.#ahead !== null)
      commits.push(...this.#ahead.read(this.#applied + 1, waiting));
    if (commits.length !== waiting)
      throw new Error(
        `the write-ahead file holds ${commits.length} of the ${waiting} commits that it was given`,
      );
    if (newest !== null) commits.push(newest);
    const latest = this.#applied + commits.length;
    this.#room.make(commits.reduce((sum, commit) => sum + blobBytes(commit), 0));
    this.#environment.root.transactionSync(() => {
      for (const commit of commits) this.#put(commit);
      if (request !== null) this.#rewrite(request);
      this.#environment.groups.putSync(APPLIED_KEY, String(latest));
    });
    this.#applied = latest;
    this.#latest = latest;
    this.#waitingRows = 0;
    this.#retryAt = 0;
    this.#ahead?.clear();
  }

  #put({ blobs, rows, groups }: StoredCommit): void {
    const { blobs: blobsTable, index, groups: groupsTable } = this.#environment;
    for (const blob of blobs)
      blobsTable.putSync(seqKey(blob.seq), asBinary(bufferOf(blob.bytes)) as Buffer);
    const bytes = bufferOf(rows);
    for (let at = 0; at < bytes.length; at += ROW_BYTES)
      index.putSync(
        bytes.subarray(at, at + ROW_KEY_BYTES),
        bytes.subarray(at + ROW_KEY_BYTES, at + ROW_BYTES),
      );
    for (const [key, json] of groups) groupsTable.putSync(key, json);
  }

  #rewrite({ removedRows, removedBlobs, refs, starts }: CommitRequest): void {
    const { index, blobs, refs: refsTable, starts: startsTable } = this.#environment;
    for (const key of removedRows) index.removeSync(Buffer.from(key));
    for (const seq of removedBlobs) {
      blobs.removeSync(seqKey(seq));
      refsTable.removeSync(seqKey(seq));
    }
    for (const [seq, left] of refs) {
      const value = Buffer.alloc(2);
      value.writeUInt16BE(left);
      refsTable.putSync(seqKey(seq), value);
    }
    for (const [key, offset] of starts) startsTable.putSync(Buffer.from(key), seqKey(offset));
  }

  /** Null while there is no room for the file. */
  #aheadFile(): WriteAheadFile | null {
    if (this.#ahead !== null) return this.#ahead;
    try {
      this.#ahead = new WriteAheadFile(this.#aheadPath);
    } catch {
      // The disk is full: every commit is a transaction of its own until there is room.
    }
    return this.#ahead;
  }
}

function toStored({ blobs, rows, groups }: CommitRequest): StoredCommit {
  return {
    blobs: blobs.map(({ seq, bytes }) => ({ seq, bytes: new Uint8Array(bytes) })),
    rows,
    groups,
  };
}

function bufferOf({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}

function onlyAdds({ removedRows, removedBlobs, refs, starts }: CommitRequest): boolean {
  return (
    removedRows.length === 0 &&
    removedBlobs.length === 0 &&
    refs.length === 0 &&
    starts.length === 0
  );
}

function blobBytes({ blobs }: StoredCommit): number {
  return blobs.reduce((sum, { bytes }) => sum + bytes.byteLength, 0);
}
