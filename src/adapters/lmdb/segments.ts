import { closeSync, fdatasyncSync, openSync, statSync, writeSync, writevSync } from "node:fs";
import type { Place } from "./layout.ts";
import { firstNumber, placesOf, readCommits } from "./read-segment.ts";
import type { WrittenCommit } from "./read-segment.ts";
import {
  createSegment,
  isWhole,
  listSegments,
  prepareSegment,
  removeSegment,
  SEGMENT_BYTES,
  segmentPath,
} from "./segment-files.ts";
import { COMMIT_HEAD_BYTES, encodeCommit } from "./stored-commit.ts";
import type { StoredCommit } from "./stored-commit.ts";

/** A larger commit is not taken: what it would leave of a segment unused is too much. */
const MAX_COMMIT_BYTES = SEGMENT_BYTES / 2;
/** Segments that are kept for later use, or half as many as are in use; more are removed. */
const LEAST_FREE = 4;
/** What failed for want of room on the disk is tried again after so many commits. */
export const RETRY_COMMITS = 100;
/** Fewer full segments than this are not worth clearing out. */
const LEAST_SEALED = 8;
const NOTHING_LIVE = { liveBytes: 0, firstSeq: Infinity, lastSeq: 0 };

interface Sealed {
  readonly sizeBytes: number;
  lastNumber: number;
  liveBytes: number;
  /** Of the blobs that were needed since it was opened; none: Infinity and 0. */
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
  endBytes: number;
}

/**
 * The files that hold the records, on the commit thread: commits one after the other, each one write and one sync of bytes that
 * the file system already has a place for. A blob stays where it was written first; LMDB holds what finds it.
 *
 * Numbers of commits go up by one. A segment is used again once nothing in it is needed: what is left there of earlier
 * commits has lower numbers, and what a crash cut short has another checksum.
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

  /** A blob that the index knows of. @throws {Error} when its segment is gone, or ends before it */
  keep(seq: number, { segment, positionBytes, lengthBytes }: Place): void {
    const holder = this.#sealed.get(segment);
    if (holder === undefined) throw damaged(segmentPath(this.#dir, segment), "is missing");
    if (positionBytes + lengthBytes > holder.sizeBytes)
      throw damaged(segmentPath(this.#dir, segment), `is cut off after ${holder.sizeBytes} bytes`);
    addBlob(holder, seq, lengthBytes);
  }

  /**
   * The commits after `number`, in order and without a gap: those that a crash kept from the index.
   * @throws {Error} when one of them cannot be read: what a crash cuts short is the last
   */
  readAfter(number: number): WrittenCommit[] {
    const found = new Map<number, WrittenCommit>();
    let latest = number;
    for (const id of this.#segmentsAfter(number))
      for (const commit of readCommits(this.#dir, id, this.#seed))
        // A later segment is right: in the earlier one it failed, and was refused, and its number was given again.
        if (commit.number > number) {
          found.set(commit.number, commit);
          latest = Math.max(latest, commit.number);
        }
    const commits: WrittenCommit[] = [];
    for (let next = number + 1; ; next += 1) {
      const commit = found.get(next);
      if (commit === undefined) break;
      commits.push(commit);
      for (const [seq, place] of commit.places) this.keep(seq, place);
    }
    if (latest > number + commits.length)
      throw damaged(
        this.#dir,
        `is damaged (commit ${number + commits.length + 1} cannot be read, commit ${latest} can)`,
      );
    return commits;
  }

  /**
   * In the order in which they were written: the last that begins with `number` or before it, and all that begin later. First
   * those that begin with no commit: new, or damaged there.
   */
  #segmentsAfter(number: number): number[] {
    const segments = [...this.#sealed.keys()].map((id) => ({
      id,
      first: firstNumber(this.#dir, id),
    }));
    const headless = segments.filter(({ first }) => first === null);
    const byFirst = segments
      .filter(({ first }) => first !== null)
      .toSorted((a, b) => a.first! - b.first!);
    const from = byFirst.findLastIndex(({ first }) => first! <= number);
    return [...headless, ...byFirst.slice(Math.max(0, from))].map(({ id }) => id);
  }

  /** Durable when it returns. Null, and nothing written, when it is too large or there is no room. @throws {Error} of the file system */
  append(number: number, commit: StoredCommit): WrittenCommit | null {
    const encoded = encodeCommit(number, commit, this.#seed);
    if (encoded.sizeBytes > MAX_COMMIT_BYTES) return null;
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
    return { number, places, rows: commit.rows, groups: commit.groups };
  }

  /** These blobs are needed no more. */
  forget(places: readonly Place[]): void {
    for (const { segment, lengthBytes } of places) {
      const holder = this.#current?.id === segment ? this.#current : this.#sealed.get(segment);
      if (holder !== undefined) holder.liveBytes -= lengthBytes;
    }
  }

  /** Segments of which nothing is needed, now that the index has all commits up to `applied`. Readers must let go of them: then `reuse`. */
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
    const most = Math.max(LEAST_FREE, this.#sealed.size / 2);
    while (this.#free.length > most) this.#remove(this.#free.pop()!);
  }

  #remove(id: number): void {
    const removing = removeSegment(this.#dir, id)
      // It stays, and is found to be free when the log is opened again.
      .catch(() => {})
      .finally(() => this.#removing.delete(removing));
    this.#removing.add(removing);
  }

  /** The one that has least left, when three quarters of all full segments are not needed any more. */
  sparsest(): SegmentSpan | null {
    const sealed = [...this.#sealed]
      .filter(([, segment]) => segment.liveBytes > 0)
      .toSorted((a, b) => a[1].liveBytes - b[1].liveBytes);
    if (sealed.length < LEAST_SEALED) return null;
    const liveBytes = sealed.reduce((sum, [, segment]) => sum + segment.liveBytes, 0);
    if (liveBytes * 4 >= sealed.length * SEGMENT_BYTES) return null;
    const [id, { firstSeq, lastSeq }] = sealed[0]!;
    return { id, firstSeq, lastSeq };
  }

  /** Makes a segment, so that the first commit need not wait for it. */
  makeReady(): void {
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
    const file = openSync(segmentPath(this.#dir, id), "r+");
    if (current !== null) {
      closeSync(current.file);
      this.#sealed.set(current.id, current);
    }
    this.#current = {
      id,
      file,
      sizeBytes: SEGMENT_BYTES,
      endBytes: 0,
      lastNumber: number,
      ...NOTHING_LIVE,
    };
    return this.#current;
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

/** What may be whole in the file, but was refused, or is in LMDB now, must not be found when the log is opened again. */
function blankHead({ file, endBytes }: Current): void {
  try {
    writeSync(file, Buffer.alloc(COMMIT_HEAD_BYTES), 0, COMMIT_HEAD_BYTES, endBytes);
  } catch {
    // The next commit is written over it.
  }
}

function damaged(path: string, what: string): Error {
  return new Error(`${path} ${what}: restore the log's whole directory from a backup`);
}
