import { LRUCache } from "lru-cache";
import { LogError } from "../../domain/log.ts";
import { checkLogFile } from "./check-log-file.ts";
import { CommitThread } from "./commit/commit-thread.ts";
import { entryAtOrBefore, placeInIndex, startInIndex } from "./commit/index-entries.ts";
import { openEnvironment } from "./environment.ts";
import type { Environment } from "./environment.ts";
import { decodeRows, encodeRows, MAX_OFFSET, rowKey, seqKey, seqOf, streamKey } from "./layout.ts";
import type { Place, Row, StreamId } from "./layout.ts";
import type { PackedCommit } from "./commit/pack-commit.ts";
import { RecentBlobs } from "./commit/recent-blobs.ts";
import { isIntact, storedBytes, storedRegion } from "./region-checksums.ts";
import { SegmentReader } from "./segments/segment-reader.ts";
import type { UnreadableCommits } from "./commit/unreadable-commits.ts";
import { WaitingCommits } from "./commit/waiting-commits.ts";

const NO_RECORDS = Buffer.alloc(0);
/** How long a blob is cached after it was asked for: streams that are read at the same time come by sooner. */
const CACHED_FOR_MS = 10_000;
const CACHE_GRAIN_MS = 1_000;

/** One transaction in the log's terms. */
export interface StoreCommit {
  readonly packed: PackedCommit;
  readonly groups: readonly (readonly [key: string, json: string])[];
  /** Removes rows of the stream that hold nothing from `offset` on, before those of `packed` are put. */
  readonly removedBelow: readonly (readonly [stream: StreamId, offset: number])[];
  readonly removedBlobs: readonly number[];
  readonly refs: readonly (readonly [seq: number, regionsLeft: number])[];
  readonly starts: readonly (readonly [stream: StreamId, offset: number])[];
}

/** What the log needs of its storage; tests put a failing or slow one in between. */
export interface CommitStore extends AsyncDisposable {
  /** Commits all or nothing; resolves once it is durable (synced). One at a time. @throws {LogError} */
  commit(commit: StoreCommit): Promise<void>;
  /** Returns rows of a stream that hold offsets from `offset` on, oldest first. */
  rowsFrom(stream: StreamId, offset: number, limit: number): readonly Row[];
  /** Returns the records of the row's region, none if they are damaged on the disk, which is told; null if its blob was trimmed. */
  region(row: Row): Buffer | null;
  startOffset(stream: StreamId): number;
  lastRow(stream: StreamId): Row | null;
  /** Returns the highest blob number in use. */
  lastSeq(): number;
  refs(seq: number): number | null;
  groupEntries(): readonly (readonly [key: string, json: string])[];
  /** Closes and reopens the files, after an error from which LMDB does not recover by itself. */
  reopen(): Promise<void>;
}

export interface StoreOptions {
  readonly path: string;
  readonly segmentsDir: string;
  readonly mapSizeBytes: number;
  /** Half of it is for what was written last, half for what was read from the files. */
  readonly cacheBytes: number;
  /** The records of a region are not what was written; called for each time that they are read. */
  readonly damaged: (row: Row) => void;
  /** Commits of an earlier process cannot be read. */
  readonly unreadable: (commits: UnreadableCommits) => void;
}

export async function openStore(options: StoreOptions): Promise<CommitStore> {
  await checkLogFile(options.path, options.segmentsDir);
  const store = new LmdbStore(options);
  await store.start();
  return store;
}

class LmdbStore implements CommitStore {
  readonly #options: StoreOptions;
  readonly #thread: CommitThread;
  readonly #recent: RecentBlobs;
  /** Blobs that were read whole from the files, since several of their streams are read at the same time. */
  readonly #cache: LRUCache<number, Buffer>;
  /** Blobs of which one region was read; forgotten when the cache would have let go of them, too. */
  readonly #touched: LRUCache<number, true>;
  readonly #segments: SegmentReader;
  readonly #waiting = new WaitingCommits();
  #opened: Environment | null = null;
  #purgedMs = 0;

  constructor(options: StoreOptions) {
    this.#options = options;
    const { path, segmentsDir, mapSizeBytes, cacheBytes } = options;
    this.#segments = new SegmentReader(segmentsDir);
    this.#thread = new CommitThread(
      { path, segmentsDir, mapSizeBytes },
      {
        applied: (id) => this.#applied(id),
        emptied: (segment) => this.#emptied(segment),
        unreadable: options.unreadable,
      },
    );
    this.#recent = new RecentBlobs(cacheBytes / 2);
    const maxSize = Math.max(1, cacheBytes / 2);
    this.#cache = new LRUCache({
      maxSize,
      sizeCalculation: (blob) => blob.length,
      ttl: CACHED_FOR_MS,
      ttlResolution: CACHE_GRAIN_MS,
      updateAgeOnGet: true,
    });
    this.#touched = new LRUCache({ maxSize });
  }

  /** Starts the thread first: it puts into LMDB what an earlier process left in the segments. */
  async start(): Promise<void> {
    await this.#thread.start();
    this.#waiting.clear();
    this.#recent.clear();
    this.#cache.clear();
    this.#touched.clear();
    this.#opened = openEnvironment(this.#options.path, this.#options.mapSizeBytes);
  }

  get #environment(): Environment {
    if (this.#opened === null) throw new LogError("log_unavailable", "the log is not open");
    return this.#opened;
  }

  async commit(commit: StoreCommit): Promise<void> {
    const { blobs, rows } = commit.packed;
    const shared = this.#recent.write(blobs);
    const id = await this.#thread.commit({
      blobs: shared.blobs,
      rows: encodeRows(rows),
      groups: commit.groups,
      removedBelow: commit.removedBelow.map(([stream, offset]) => [streamKey(stream), offset]),
      removedBlobs: commit.removedBlobs,
      refs: commit.refs,
      starts: commit.starts.map(([stream, offset]) => [streamKey(stream), offset]),
    });
    this.#waiting.add(id, rows);
    this.#recent.keep(id, shared);
    for (const seq of commit.removedBlobs) {
      this.#recent.remove(seq);
      this.#cache.delete(seq);
    }
  }

  #applied(id: number): void {
    // Another thread made the transaction: without this, the next read could still see the old snapshot.
    this.#opened?.root.resetReadTxn();
    this.#waiting.applied(id);
    this.#recent.applied(id);
  }

  #emptied(segment: number): void {
    this.#opened?.root.resetReadTxn();
    this.#segments.forget(segment);
  }

  rowsFrom(stream: StreamId, offset: number, limit: number): readonly Row[] {
    const { index } = this.#environment;
    const rows: Row[] = [];
    const prefix = streamKey(stream);
    const start = entryAtOrBefore(index, prefix, offset)?.key ?? rowKey(prefix, offset);
    for (const entry of index.getRange({ start, end: rowKey(prefix, MAX_OFFSET) })) {
      for (const row of decodeRows(stream, entry.key, entry.value, offset)) rows.push(row);
      if (rows.length >= limit) return rows.slice(0, limit);
    }
    // LMDB may be ahead of what this thread has been told.
    const waiting = this.#waiting.from(stream, Math.max(offset, rows.at(-1)?.next ?? 0));
    return [...rows, ...waiting.slice(0, limit - rows.length)];
  }

  region(row: Row): Buffer | null {
    const { seq, positionBytes, lengthBytes } = row;
    const recent = this.#recent.get(seq);
    if (recent !== null) return recent.subarray(positionBytes, positionBytes + lengthBytes);
    const stored = this.#storedRegion(row);
    if (stored === null) return null;
    if (isIntact(stored, row)) return stored.subarray(0, lengthBytes);
    this.#options.damaged(row);
    return NO_RECORDS;
  }

  #storedRegion(row: Row): Buffer | null {
    const blob = this.#cache.get(row.seq);
    if (blob !== undefined) return storedRegion(blob, row);
    const place = placeInIndex(this.#environment, row.seq);
    if (place === null) return this.#keep(row, this.#environment.blobs.getBinary(seqKey(row.seq)));
    if (this.#isWantedWhole(row, place)) return this.#keep(row, this.#segments.read(place));
    const positionBytes = place.positionBytes + row.positionBytes;
    return this.#segments.read({ ...place, positionBytes, lengthBytes: storedBytes(row) });
  }

  /**
   * Returns whether to read all of a blob for one region. A partition that reads its small records back through hours of the log
   * would otherwise read everybody's payloads, which push each other out of the cache before the next partition comes by.
   */
  #isWantedWhole({ seq, lengthBytes }: Row, place: Place): boolean {
    if (lengthBytes * 2 > place.lengthBytes || this.#touched.has(seq)) return true;
    this.#touched.set(seq, true, { size: place.lengthBytes });
    return false;
  }

  #keep(row: Row, blob: Buffer | undefined): Buffer | null {
    if (blob === undefined) return null;
    this.#cache.set(row.seq, blob);
    this.#purge();
    return storedRegion(blob, row);
  }

  /** Lets go of what was cached too long ago: tasks that come back one by one would fill the cache with what nobody asks for again. */
  #purge(): void {
    const nowMs = performance.now();
    if (nowMs < this.#purgedMs + CACHE_GRAIN_MS) return;
    this.#purgedMs = nowMs;
    this.#cache.purgeStale();
  }

  startOffset(stream: StreamId): number {
    return startInIndex(this.#environment, streamKey(stream));
  }

  lastRow(stream: StreamId): Row | null {
    const waiting = this.#waiting.last(stream);
    if (waiting !== null) return waiting;
    const entry = entryAtOrBefore(this.#environment.index, streamKey(stream), MAX_OFFSET);
    return entry === null ? null : decodeRows(stream, entry.key, entry.value, 0).at(-1)!;
  }

  lastSeq(): number {
    const { places, blobs } = this.#environment;
    const [inSegment] = places.getKeys({ reverse: true, limit: 1 });
    const [inLmdb] = blobs.getKeys({ reverse: true, limit: 1 });
    return Math.max(...[inSegment, inLmdb].map((key) => (key === undefined ? 0 : seqOf(key))));
  }

  refs(seq: number): number | null {
    return this.#environment.refs.getBinary(seqKey(seq))?.readUInt16BE(0) ?? null;
  }

  groupEntries(): readonly (readonly [key: string, json: string])[] {
    return [...this.#environment.groups.getRange({})].map(({ key, value }) => [key, value]);
  }

  async reopen(): Promise<void> {
    await this.#thread.stop();
    await this.#opened?.root.close();
    this.#opened = null;
    this.#segments[Symbol.dispose]();
    await this.start();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#thread[Symbol.asyncDispose]();
    this.#segments[Symbol.dispose]();
    await this.#opened?.root.close();
  }
}
