import { closeSync, fdatasyncSync, openSync, statSync, writeSync, writevSync } from "node:fs";
import type { Place } from "../layout.ts";
import { placesOf } from "./read-segment.ts";
import type { WrittenCommit } from "./read-segment.ts";
import { recoverCommits } from "./recover-commits.ts";
import type { CommitEnd } from "./recover-commits.ts";
import {
  createSegment,
  damaged,
  isWhole,
  listSegments,
  prepareSegment,
  removeSegment,
  SEGMENT_BYTES,
  segmentPath,
} from "./segment-files.ts";
import { COMMIT_HEAD_BYTES, encodeCommit } from "./segment-commit.ts";
import type { SegmentCommit } from "./segment-commit.ts";

/** A larger commit is not taken: it would leave too much of a segment unused. */
export const MAX_SEGMENT_COMMIT_BYTES = SEGMENT_BYTES / 2;
/** Free segments that are kept for later use, or half as many as are in use if that is more; any others are removed. */
const MIN_FREE = 4;
/** What failed for lack of room on the disk is tried again after this many commits. */
export const RETRY_COMMITS = 100;
/** Fewer full segments than this are not worth clearing out. */
const MIN_SEALED = 8;
const NOTHING_LIVE = { liveBytes: 0, endBytes: 0, firstSeq: Infinity, lastSeq: 0 };

interface Sealed {
  readonly sizeBytes: number;
  /** Nothing that is needed lies beyond it. */
  endBytes: number;
  lastNumber: number;
  liveBytes: number;
  /** Range of the blobs that were needed since it was opened; Infinity and 0 if none were. */
  firstSeq: number;
  lastSeq: number;
}
/** A segment, and the blobs that it may hold. */
export interface SegmentSpan {
  readonly id: number;
  readonly firstSeq: number;
  readonly lastSeq: number;
}
interface Current extends Sealed {
  readonly id: number;
  readonly file: number;
}

/**
 * The files that hold the records, on the commit thread: commits one after the other, each with one write and one sync of bytes that
 * the file system already has a place for. A blob stays where it was first written; LMDB holds what finds it.
 *
 * Numbers of commits go up by one. A segment is used again once nothing in it is needed: earlier commits that are left there
 * have lower numbers, and one that a crash cut short, whose number is given again, has another checksum.
 */
export class Segments implements AsyncDisposable {
  readonly #dir: string;
  readonly #seed: number;
  readonly #sealed = new Map<number, Sealed>();
  #current: Current | null = null;
  #free: number[] = [];
  #preparing: Promise<void> | null = null;
  readonly #removing = new Set<Promise<void>>();
  #nextId = 1;
  #createAgainAt = 0;

  /** `seed`: see `encodeCommit`. */
  constructor(dir: string, seed: number) {
    this.#dir = dir;
    this.#seed = seed;
    for (const id of listSegments(dir)) {
      const sizeBytes = statSync(segmentPath(dir, id)).size;
      this.#sealed.set(id, { sizeBytes, lastNumber: 0, ...NOTHING_LIVE });
      this.#nextId = Math.max(this.#nextId, id + 1);
    }
  }

  /** Counts a blob that the index knows of. @throws {Error} when its segment is gone, or ends before it */
  keep(seq: number, { segment, positionBytes, lengthBytes }: Place): void {
    const holder = this.#sealed.get(segment);
    if (holder === undefined) throw damaged(segmentPath(this.#dir, segment), "is missing");
    if (positionBytes + lengthBytes > holder.sizeBytes)
      throw damaged(segmentPath(this.#dir, segment), `is cut off after ${holder.sizeBytes} bytes`);
    addBlob(holder, seq, lengthBytes);
    holder.endBytes = Math.max(holder.endBytes, positionBytes + lengthBytes);
  }

  /**
   * Returns the commits after `number` (see `recoverCommits`): those that a crash kept from the index. The segment of the latest
   * commit is written on, so that a process that starts again and again needs one segment for all its starts.
   */
  readAfter(number: number): WrittenCommit[] {
    const { commits, end } = recoverCommits(
      this.#dir,
      [...this.#sealed.keys()],
      number,
      this.#seed,
    );
    for (const { places } of commits) for (const [seq, place] of places) this.keep(seq, place);
    if (end !== null) this.#writeOn(end);
    return commits;
  }

  #writeOn({ segment, endBytes, number }: CommitEnd): void {
    const holder = this.#sealed.get(segment)!;
    if (holder.liveBytes === 0 || holder.sizeBytes !== SEGMENT_BYTES) return;
    this.#sealed.delete(segment);
    this.#current = {
      ...holder,
      id: segment,
      file: openSync(segmentPath(this.#dir, segment), "r+"),
      endBytes: Math.max(endBytes, holder.endBytes),
      lastNumber: number,
    };
  }

  /** Makes a commit durable; returns null, with nothing written, if it is too large or finds no room. @throws {Error} by the file system */
  append(number: number, commit: SegmentCommit): WrittenCommit | null {
    const encoded = encodeCommit(number, commit, this.#seed);
    if (encoded.sizeBytes > MAX_SEGMENT_COMMIT_BYTES) return null;
    const segment = this.#withRoom(encoded.sizeBytes, number);
    if (segment === null) return null;
    try {
      const written = writevSync(segment.file, encoded.parts, segment.endBytes);
      if (written !== encoded.sizeBytes) throw new Error("the segment was written only in part");
      fdatasyncSync(segment.file);
    } catch (error) {
      blankHead(segment);
      throw error;
    }
    const places = placesOf(commit, segment.id, segment.endBytes + encoded.blobsAt);
    segment.endBytes += encoded.sizeBytes;
    segment.lastNumber = number;
    for (const [seq, { lengthBytes }] of places) addBlob(segment, seq, lengthBytes);
    if (segment.endBytes > SEGMENT_BYTES / 2) this.#prepareNext(number);
    const { rows, groups } = commit;
    return { number, places, rows, groups, segment: segment.id, endBytes: segment.endBytes };
  }

  /** Notes that these blobs are no longer needed. */
  forget(places: readonly Place[]): void {
    for (const { segment, lengthBytes } of places) {
      const holder = this.#current?.id === segment ? this.#current : this.#sealed.get(segment);
      if (holder !== undefined) holder.liveBytes -= lengthBytes;
    }
  }

  /** Returns segments no longer needed, now that the index has all commits up to `applied`. Readers let go of them before `reuse`. */
  takeEmptied(applied: number): number[] {
    const emptied = [...this.#sealed]
      .filter(([, { lastNumber, liveBytes }]) => liveBytes === 0 && lastNumber <= applied)
      .map(([id]) => id);
    for (const id of emptied) this.#sealed.delete(id);
    return emptied;
  }

  reuse(id: number): void {
    if (isWhole(this.#dir, id)) this.#free.push(id);
    else this.#remove(id);
    const most = Math.max(MIN_FREE, this.#sealed.size / 2);
    while (this.#free.length > most) this.#remove(this.#free.pop()!);
  }

  #remove(id: number): void {
    const removing = removeSegment(this.#dir, id)
      // It stays, and is found to be free when the log is next opened.
      .catch(() => {})
      .finally(() => this.#removing.delete(removing));
    this.#removing.add(removing);
  }

  /**
   * Returns the segment with the least left in it, if three quarters of all full segments are no longer needed; one of those that
   * the index has whole, now that it has all commits up to `applied`.
   */
  sparsest(applied: number): SegmentSpan | null {
    const sealed = [...this.#sealed].filter(([, segment]) => segment.liveBytes > 0);
    if (sealed.length < MIN_SEALED) return null;
    const liveBytes = sealed.reduce((sum, [, segment]) => sum + segment.liveBytes, 0);
    if (liveBytes * 4 >= sealed.length * SEGMENT_BYTES) return null;
    const [sparsest] = sealed
      .filter(([, { lastNumber }]) => lastNumber <= applied)
      .toSorted((a, b) => a[1].liveBytes - b[1].liveBytes);
    if (sparsest === undefined) return null;
    const [id, { firstSeq, lastSeq }] = sparsest;
    return { id, firstSeq, lastSeq };
  }

  /** Makes a segment if the next commits need one, so that the first does not wait for it. */
  makeReady(): void {
    if (this.#current !== null && this.#current.endBytes <= SEGMENT_BYTES / 2) return;
    try {
      this.#free.push(this.#create());
    } catch {
      // The disk is full: commits go into LMDB until there is room.
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all([this.#preparing, ...this.#removing]);
    if (this.#current !== null) closeSync(this.#current.file);
    this.#current = null;
  }

  #withRoom(sizeBytes: number, number: number): Current | null {
    const current = this.#current;
    if (current !== null && current.endBytes + sizeBytes <= SEGMENT_BYTES) return current;
    const id = this.#next(number);
    if (id === null) return null;
    const file = this.#open(id);
    if (current !== null) {
      closeSync(current.file);
      this.#sealed.set(current.id, current);
    }
    this.#current = {
      id,
      file,
      sizeBytes: SEGMENT_BYTES,
      lastNumber: number,
      ...NOTHING_LIVE,
    };
    return this.#current;
  }

  /** Opens a segment to be written next. It stays free if the process has too many files open. */
  #open(id: number): number {
    try {
      return openSync(segmentPath(this.#dir, id), "r+");
    } catch (error) {
      this.#free.push(id);
      throw error;
    }
  }

  #next(number: number): number | null {
    const free = this.#free.pop();
    if (free !== undefined) return free;
    if (number < this.#createAgainAt) return null;
    try {
      return this.#create();
    } catch {
      this.#createAgainAt = number + RETRY_COMMITS;
      return null;
    }
  }

  #create(): number {
    const id = this.#nextId++;
    createSegment(this.#dir, id);
    return id;
  }

  #prepareNext(number: number): void {
    if (this.#free.length > 0 || this.#preparing !== null || number < this.#createAgainAt) return;
    const id = this.#nextId++;
    this.#preparing = prepareSegment(this.#dir, id)
      .then(
        () => this.reuse(id),
        () => {
          this.#createAgainAt = number + RETRY_COMMITS;
        },
      )
      .finally(() => {
        this.#preparing = null;
      });
  }
}

function addBlob(holder: Sealed, seq: number, lengthBytes: number): void {
  holder.liveBytes += lengthBytes;
  holder.firstSeq = Math.min(holder.firstSeq, seq);
  holder.lastSeq = Math.max(holder.lastSeq, seq);
}

/** Blanks what may be whole in the file, but was refused or is in LMDB now: it must not be found when the log is opened again. */
function blankHead({ file, endBytes }: Current): void {
  try {
    writeSync(file, Buffer.alloc(COMMIT_HEAD_BYTES), 0, COMMIT_HEAD_BYTES, endBytes);
  } catch {
    // The next commit overwrites it.
  }
}
