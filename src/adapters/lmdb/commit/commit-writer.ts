import { randomBytes } from "node:crypto";
import { dirname } from "node:path";
import { asBinary } from "lmdb";
import { onlyAdds } from "./commit-protocol.ts";
import type { CommitRequest, CommitWorkerData } from "./commit-protocol.ts";
import { FileRoom } from "./file-room.ts";
import { isLockedUp, openEnvironment } from "../environment.ts";
import type { Environment } from "../environment.ts";
import { putRows, removeRowsBelow } from "./index-entries.ts";
import { decodePlace, encodePlace, ROW_BYTES, seqKey, seqOf } from "../layout.ts";
import type { Place } from "../layout.ts";
import { writeChecksums } from "../region-checksums.ts";
import type { WrittenCommit } from "../segments/read-segment.ts";
import { listSegments } from "../segments/segment-files.ts";
import { SegmentReader } from "../segments/segment-reader.ts";
import { RETRY_COMMITS, Segments } from "../segments/segments.ts";
import type { SegmentSpan } from "../segments/segments.ts";
import { EARLIER_SEED } from "../segments/segment-commit.ts";
import type { SegmentCommit } from "../segments/segment-commit.ts";
import { syncDirectory, syncFile } from "../sync-files.ts";
import { findUnreadable } from "./unreadable-commits.ts";
import type { UnreadableCommits } from "./unreadable-commits.ts";

/** When this much is missing from the index, it is put there: one large transaction instead of many small ones. */
const DUE_ROWS = 4_096;
const DUE_COMMITS = 1_000;
const DUE_BYTES = 16 * 1024 * 1024;
/** Or so many commits, if the last time is a while ago: the next commit waits for a transaction, and a small one takes a third as long. */
const DUE_COMMITS_AFTER_A_WHILE = 256;
const A_WHILE_MS = 500;
/** Most segments that are cleared out with one trim. */
const MOST_CLEARED_OUT = 4;
/** Key in `groups` of the number of the latest commit that is in LMDB. */
const APPLIED_KEY = "applied";
/** Key in `groups` of what checksums in the segments begin with. */
const SEED_KEY = "seed";

/**
 * Makes commits durable, on the commit thread: each goes into a segment, and what finds it there into LMDB, many at a time.
 * What no segment can take (too large, or it removes something, or the disk is full) becomes one LMDB transaction, together
 * with everything that waits before it.
 */
export class CommitWriter implements AsyncDisposable {
  /** What an earlier process had made durable and cannot be read; null if there is nothing. */
  readonly unreadable: UnreadableCommits | null;
  readonly #environment: Environment;
  readonly #room: FileRoom;
  readonly #segments: Segments;
  readonly #segmentsDir: string;
  /** Numbers of the latest commit that is in LMDB, and of the latest one. */
  #applied: number;
  #latest: number;
  #waiting: WrittenCommit[] = [];
  #waitingRows = 0;
  #waitingBytes = 0;
  #retryAt = 0;
  #isLockedUp = false;
  #appliedAtMs = 0;

  /** Puts what an earlier process left in the segments into LMDB. @throws {Error} when the files cannot be opened */
  constructor({ path, segmentsDir, mapSizeBytes }: CommitWorkerData) {
    const environment = openEnvironment(path, mapSizeBytes);
    this.#environment = environment;
    this.#room = new FileRoom(path, environment.root);
    this.#segmentsDir = segmentsDir;
    this.#segments = new Segments(segmentsDir, seedOf(environment, segmentsDir));
    syncWhatIsThere(path);
    for (const { key, value } of environment.places.getRange({}))
      this.#segments.keep(seqOf(key), decodePlace(value));
    this.#applied = Number(environment.groups.get(APPLIED_KEY) ?? 0);
    this.#waiting = this.#segments.readAfter(this.#applied);
    this.unreadable = findUnreadable(this.#waiting, this.#applied, { environment, segmentsDir });
    this.#latest = this.#waiting.at(-1)?.number ?? this.#applied;
    if (this.#waiting.length > 0) this.#transact(null);
  }

  /** LMDB refuses everything until the files are reopened, and so does `commit`: nothing would come from the segments into the index. */
  get isLockedUp(): boolean {
    return this.#isLockedUp;
  }

  /** Returns once the commit is durable: true if it and all before it are in LMDB. @throws {Error} when it is not durable */
  commit(request: CommitRequest): boolean {
    writeChecksums(request);
    if (!this.#isLockedUp && onlyAdds(request) && this.#written(request)) return false;
    this.#transact(request);
    if (request.removedBlobs.length > 0)
      for (let left = MOST_CLEARED_OUT; left > 0 && this.clearOutSparsest(); left -= 1);
    return true;
  }

  /**
   * Moves the few records of a segment that stay long (held deliveries, long delays) into LMDB, so that they do not keep all of it
   * on disk. Returns false if there is no such segment, or it cannot be done now.
   */
  clearOutSparsest(): boolean {
    const segment = this.#segments.sparsest(this.#applied);
    if (segment === null) return false;
    try {
      this.#clearOut(segment);
      return true;
    } catch {
      // The disk is full: they are moved after a later trim.
      return false;
    }
  }

  /** Puts what waits into LMDB once there is enough. Returns false if nothing was done, or LMDB failed and it goes on waiting. */
  applyIfDue(): boolean {
    const isWhileAgo = performance.now() - this.#appliedAtMs >= A_WHILE_MS;
    const dueCommits = isWhileAgo ? DUE_COMMITS_AFTER_A_WHILE : DUE_COMMITS;
    const isDue =
      this.#waiting.length >= dueCommits ||
      this.#waitingRows >= DUE_ROWS ||
      this.#waitingBytes >= DUE_BYTES;
    return isDue && this.#latest >= this.#retryAt && this.#tryToApply();
  }

  /** Returns segments of which nothing is needed any more, to be given back by `reuse` once nothing reads from them. */
  takeEmptied(): readonly number[] {
    return this.#segments.takeEmptied(this.#applied);
  }

  reuse(segment: number): void {
    this.#segments.reuse(segment);
  }

  /** Makes a segment ahead, so that the first commit need not wait for it. */
  makeReady(): void {
    this.#segments.makeReady();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#waiting.length > 0) this.#tryToApply();
    await this.#segments[Symbol.asyncDispose]();
    this.#room[Symbol.dispose]();
    await this.#environment.root.close();
  }

  #tryToApply(): boolean {
    try {
      this.#transact(null);
      return true;
    } catch {
      this.#retryAt = this.#latest + RETRY_COMMITS;
      return false;
    }
  }

  #written(commit: SegmentCommit): boolean {
    let written: WrittenCommit | null;
    try {
      written = this.#segments.append(this.#latest + 1, commit);
    } catch {
      // What of it is in the file does not count: the next commit gets its number and its place.
      return false;
    }
    if (written === null) return false;
    this.#latest += 1;
    this.#waiting.push(written);
    this.#waitingRows += written.rows.length / ROW_BYTES;
    for (const [, { lengthBytes }] of written.places) this.#waitingBytes += lengthBytes;
    return true;
  }

  /** Puts everything that waits and `newest` into LMDB, all or nothing. */
  #transact(newest: CommitRequest | null): void {
    const latest = this.#latest + (newest === null ? 0 : 1);
    this.#room.make((newest?.blobs ?? []).map(({ bytes }) => bytes.length));
    const removed = this.#placesOf(newest?.removedBlobs ?? []);
    const { root, groups } = this.#environment;
    try {
      root.transactionSync(() => {
        this.#putWaiting();
        if (newest !== null) {
          this.#remove(newest);
          this.#putWhole(newest);
        }
        groups.putSync(APPLIED_KEY, String(latest));
      });
    } catch (error) {
      this.#isLockedUp = isLockedUp(this.#environment);
      throw error;
    }
    this.#applied = latest;
    this.#latest = latest;
    this.#waiting = [];
    this.#waitingRows = 0;
    this.#waitingBytes = 0;
    this.#retryAt = 0;
    this.#appliedAtMs = performance.now();
    this.#segments.forget(removed);
  }

  #placesOf(seqs: readonly number[]): Place[] {
    if (seqs.length === 0) return [];
    const waiting = new Map(this.#waiting.flatMap(({ places }) => places));
    return [...new Set(seqs)].flatMap((seq) => {
      const place = waiting.get(seq) ?? this.#placeInIndex(seq);
      return place === null ? [] : [place];
    });
  }

  #placeInIndex(seq: number): Place | null {
    const value = this.#environment.places.getBinary(seqKey(seq));
    return value === undefined ? null : decodePlace(value);
  }

  #putWaiting(): void {
    const { index, places } = this.#environment;
    for (const written of this.#waiting) {
      for (const [seq, place] of written.places) places.putSync(seqKey(seq), encodePlace(place));
      this.#putGroups(written.groups);
    }
    putRows(
      index,
      this.#waiting.map(({ rows }) => rows),
    );
  }

  #putWhole({ blobs, rows, groups }: SegmentCommit): void {
    // Copied: LMDB's binding is not made for shared memory.
    for (const { seq, bytes } of blobs) this.#putBlob(seq, Buffer.from(bytes));
    putRows(this.#environment.index, [rows]);
    this.#putGroups(groups);
  }

  #putBlob(seq: number, bytes: Buffer): void {
    this.#environment.blobs.putSync(seqKey(seq), asBinary(bytes) as Buffer);
  }

  #putGroups(groups: SegmentCommit["groups"]): void {
    for (const [key, json] of groups) this.#environment.groups.putSync(key, json);
  }

  #remove({ removedBelow, removedBlobs, refs, starts }: CommitRequest): void {
    const { index, places, blobs, refs: refsTable, starts: startsTable } = this.#environment;
    for (const [key, offset] of removedBelow) removeRowsBelow(index, key, offset);
    for (const seq of removedBlobs) {
      const key = seqKey(seq);
      // A blob is in a segment or in LMDB.
      if (!places.removeSync(key)) blobs.removeSync(key);
      refsTable.removeSync(key);
    }
    for (const [seq, left] of refs) {
      const value = Buffer.alloc(2);
      value.writeUInt16BE(left);
      refsTable.putSync(seqKey(seq), value);
    }
    for (const [key, offset] of starts) startsTable.putSync(Buffer.from(key), seqKey(offset));
  }

  /** Moves a segment's blobs. They are numbered as written, so those of other segments are not looked at, however many there are. */
  #clearOut({ id, firstSeq, lastSeq }: SegmentSpan): void {
    const { root, places } = this.#environment;
    const moved: { seq: number; place: Place }[] = [];
    const range = { start: seqKey(firstSeq), end: seqKey(lastSeq + 1) };
    for (const { key, value } of places.getRange(range)) {
      const place = decodePlace(value);
      if (place.segment === id) moved.push({ seq: seqOf(key), place });
    }
    this.#room.make(moved.map(({ place }) => place.lengthBytes));
    using reader = new SegmentReader(this.#segmentsDir);
    root.transactionSync(() => {
      for (const { seq, place } of moved) {
        this.#putBlob(seq, reader.read(place));
        places.removeSync(seqKey(seq));
      }
    });
    this.#segments.forget(moved.map(({ place }) => place));
  }
}

/**
 * Syncs the index as it was found, before segments that it no longer needs are written anew: a process that was killed may have
 * written its latest state without having synced it, and a power cut would bring an earlier one back, whose segments are gone. And
 * syncs the names of the log's files: without them, a power cut would take the log as a whole.
 */
function syncWhatIsThere(path: string): void {
  syncFile(path);
  const dir = dirname(path);
  for (const holder of [dir, dirname(dir)]) syncDirectory(holder);
}

/** Returns the seed, made once. An earlier version began at 0, and its commits may still wait: all of them, if none is in LMDB yet. */
function seedOf({ groups }: Environment, segmentsDir: string): number {
  const known = groups.get(SEED_KEY);
  if (known !== undefined) return Number(known);
  const isNew = groups.get(APPLIED_KEY) === undefined && listSegments(segmentsDir).length === 0;
  const seed = isNew ? randomBytes(4).readUInt32BE() : EARLIER_SEED;
  groups.putSync(SEED_KEY, String(seed));
  return seed;
}
