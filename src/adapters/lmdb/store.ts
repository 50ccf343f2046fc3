import { BlobCache } from "./blob-cache.ts";
import { checkLogFile } from "./check-file.ts";
import type { CommitRequest } from "./commit-protocol.ts";
import { CommitThread } from "./commit-thread.ts";
import { openEnvironment } from "./environment.ts";
import type { Environment } from "./environment.ts";
import { decodeRow, decodeRows, encodeRows, rowKey, seqKey, streamKey } from "./layout.ts";
import type { Row, StreamId } from "./layout.ts";
import type { PackedCommit } from "./pack-commit.ts";
import { UnindexedRows } from "./unindexed-rows.ts";

const MAX_OFFSET = 2 ** 48 - 1;
/** With so many rows outside the index the next commit puts them in: a few milliseconds, once in about a hundred commits. */
const MAX_UNINDEXED_ROWS = 4_096;

/** One transaction in the words of the log. */
export interface StoreCommit {
  readonly packed: PackedCommit;
  readonly groups: readonly (readonly [key: string, json: string])[];
  readonly removedRows: readonly Row[];
  readonly removedBlobs: readonly number[];
  readonly refs: readonly (readonly [seq: number, regionsLeft: number])[];
  readonly starts: readonly (readonly [stream: StreamId, offset: number])[];
}

/** What the log needs of its storage; the tests put a failing or slow one in between. */
export interface CommitStore extends AsyncDisposable {
  /** All or nothing; durable (synced) when resolved. @throws {LogError} */
  commit(commit: StoreCommit): Promise<void>;
  /** Rows of a stream that hold offsets from `offset` on, oldest first. */
  rowsFrom(stream: StreamId, offset: number, limit: number): readonly Row[];
  /** Null when it was trimmed. */
  blob(seq: number): Buffer | null;
  startOffset(stream: StreamId): number;
  lastRow(stream: StreamId): Row | null;
  /** Highest blob number in use. */
  lastSeq(): number;
  refs(seq: number): number | null;
  groupEntries(): readonly (readonly [key: string, json: string])[];
  /** Closes and opens the files: after an error that LMDB cannot get over by itself. */
  reopen(): Promise<void>;
}

export interface StoreOptions {
  readonly path: string;
  readonly mapSizeBytes: number;
  readonly cacheBytes: number;
}

export async function openStore(options: StoreOptions): Promise<CommitStore> {
  await checkLogFile(options.path);
  const thread = new CommitThread({ path: options.path, mapSizeBytes: options.mapSizeBytes });
  await thread.start();
  return new LmdbStore(options, thread);
}

class LmdbStore implements CommitStore {
  readonly #options: StoreOptions;
  readonly #thread: CommitThread;
  readonly #cache: BlobCache;
  readonly #unindexed = new UnindexedRows();
  #environment: Environment;

  constructor(options: StoreOptions, thread: CommitThread) {
    this.#options = options;
    this.#thread = thread;
    this.#cache = new BlobCache(options.cacheBytes);
    this.#environment = openEnvironment(options.path, options.mapSizeBytes);
    this.#readUnindexed();
  }

  async commit(commit: StoreCommit): Promise<void> {
    const { blobs, rows } = commit.packed;
    const indexes = this.#mustIndex(commit);
    const request: Omit<CommitRequest, "id"> = {
      blobs,
      rows: encodeRows(indexes ? [...this.#unindexed.all, ...rows] : []),
      unindexed:
        indexes || blobs[0] === undefined ? null : { commit: blobs[0].seq, rows: encodeRows(rows) },
      indexedCommits: indexes ? this.#unindexed.commits : [],
      removedRows: commit.removedRows.map((row) => rowKey(row, row.base)),
      removedBlobs: commit.removedBlobs,
      refs: commit.refs,
      starts: commit.starts.map(([stream, offset]) => [streamKey(stream), offset]),
      groups: commit.groups,
    };
    const returned = await this.#thread.commit(request);
    // The commit was made by another thread: without this the next read could still see the old snapshot.
    this.#environment.root.resetReadTxn();
    if (indexes) this.#unindexed.clear();
    else if (blobs[0] !== undefined) this.#unindexed.add(blobs[0].seq, rows);
    for (const [index, blob] of commit.packed.blobs.entries())
      this.#cache.put(blob.seq, Buffer.from(returned[index]!));
    for (const seq of commit.removedBlobs) this.#cache.remove(seq);
  }

  /** What takes rows away, or rewrites them, must find them all in the index. */
  #mustIndex({ packed, removedRows, removedBlobs }: StoreCommit): boolean {
    if (removedRows.length > 0 || removedBlobs.length > 0) return true;
    return this.#unindexed.count + packed.rows.length > MAX_UNINDEXED_ROWS;
  }

  #readUnindexed(): void {
    this.#unindexed.clear();
    for (const { key, value } of this.#environment.unindexed.getRange({}))
      this.#unindexed.add(key.readUIntBE(0, 6), decodeRows(value));
  }

  rowsFrom(stream: StreamId, offset: number, limit: number): readonly Row[] {
    const { index } = this.#environment;
    const rows: Row[] = [];
    const holding = this.#rowAtOrBefore(stream, offset);
    if (holding !== null && holding.base < offset && holding.next > offset) rows.push(holding);
    for (const entry of index.getRange({
      start: rowKey(stream, offset),
      end: rowKey(stream, MAX_OFFSET),
      limit,
    }))
      rows.push(decodeRow(entry.key, entry.value));
    if (rows.length >= limit) return rows;
    const unindexed = this.#unindexed.from(stream, offset);
    return [...rows, ...unindexed.slice(0, limit - rows.length)];
  }

  blob(seq: number): Buffer | null {
    const cached = this.#cache.get(seq);
    if (cached !== undefined) return cached;
    const read = this.#environment.blobs.getBinary(seqKey(seq));
    if (read === undefined) return null;
    this.#cache.put(seq, read);
    return read;
  }

  startOffset(stream: StreamId): number {
    return this.#environment.starts.getBinary(streamKey(stream))?.readUIntBE(0, 6) ?? 0;
  }

  lastRow(stream: StreamId): Row | null {
    return this.#unindexed.last(stream) ?? this.#rowAtOrBefore(stream, MAX_OFFSET);
  }

  #rowAtOrBefore(stream: StreamId, offset: number): Row | null {
    const range = {
      start: rowKey(stream, offset),
      end: rowKey(stream, 0),
      inclusiveEnd: true,
      reverse: true,
      limit: 1,
    };
    for (const entry of this.#environment.index.getRange(range))
      return decodeRow(entry.key, entry.value);
    return null;
  }

  lastSeq(): number {
    for (const key of this.#environment.blobs.getKeys({ reverse: true, limit: 1 }))
      return key.readUIntBE(0, 6);
    return 0;
  }

  refs(seq: number): number | null {
    return this.#environment.refs.getBinary(seqKey(seq))?.readUInt16BE(0) ?? null;
  }

  groupEntries(): readonly (readonly [key: string, json: string])[] {
    return [...this.#environment.groups.getRange({})].map(({ key, value }) => [key, value]);
  }

  async reopen(): Promise<void> {
    await this.#thread.stop();
    await this.#environment.root.close();
    await this.#thread.start();
    this.#environment = openEnvironment(this.#options.path, this.#options.mapSizeBytes);
    this.#readUnindexed();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#thread[Symbol.asyncDispose]();
    await this.#environment.root.close();
  }
}
