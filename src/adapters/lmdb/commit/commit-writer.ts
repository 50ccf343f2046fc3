import { randomBytes } from "node:crypto";
import { dirname } from "node:path";
import { onlyAdds } from "./commit-protocol.ts";
import type { CommitRequest, CommitWorkerData } from "./commit-protocol.ts";
import { FileRoom } from "./file-room.ts";
import { placeInIndex } from "./index-entries.ts";
import { isLockedUp, openEnvironment } from "../environment.ts";
import type { Environment } from "../environment.ts";
import { decodePlace, seqKey, seqOf } from "../layout.ts";
import type { Place } from "../layout.ts";
import { putBlob, putWhole, putWritten, removeTrimmed } from "./lmdb-writes.ts";
import { writeChecksums } from "../region-checksums.ts";
import type { WrittenCommit } from "../segments/read-segment.ts";
import { listSegments } from "../segments/segment-files.ts";
import { SegmentReader } from "../segments/segment-reader.ts";
import { Segments } from "../segments/segments.ts";
import type { SegmentSpan } from "../segments/segments.ts";
import { EARLIER_SEED } from "../segments/segment-commit.ts";
import type { SegmentCommit } from "../segments/segment-commit.ts";
import { syncDirectory, syncFile } from "../sync-files.ts";
import { UnappliedCommits } from "./unapplied-commits.ts";
import { findUnreadable } from "./unreadable-commits.ts";
import type { UnreadableCommits } from "./unreadable-commits.ts";

/** Most segments that are cleared out with one trim. */
const MAX_CLEARED_OUT = 4;
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
  readonly #unapplied: UnappliedCommits;
  #isLockedUp = false;

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
    const applied = Number(environment.groups.get(APPLIED_KEY) ?? 0);
    const found = this.#segments.readAfter(applied);
    this.unreadable = findUnreadable(found, applied, { environment, segmentsDir });
    this.#unapplied = new UnappliedCommits(applied, found);
    if (found.length > 0) this.#transact(null);
  }

  /** LMDB refuses everything until the files are reopened, and so does `commit`: nothing would come from the segments into the index. */
  get isLockedUp(): boolean {
    return this.#isLockedUp;
  }

  /** Returns once the commit is durable: true if it and all before it are in LMDB. @throws {Error} when it is not durable */
  commit(request: CommitRequest): boolean {
    writeChecksums(request);
    if (!this.#isLockedUp && onlyAdds(request) && this.#writeToSegment(request)) return false;
    this.#transact(request);
    if (request.removedBlobs.length > 0)
      for (let left = MAX_CLEARED_OUT; left > 0 && this.clearOutSparsest(); left -= 1);
    return true;
  }

  /**
   * Moves the few records of a segment that stay long (held deliveries, long delays) into LMDB, so that they do not keep all of it
   * on disk. Returns false if there is no such segment, or it cannot be done now.
   */
  clearOutSparsest(): boolean {
    const segment = this.#segments.sparsest(this.#unapplied.applied);
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
    return this.#unapplied.isDue() && this.#tryToApply();
  }

  /** Returns segments of which nothing is needed any more, to be given back by `reuse` once nothing reads from them. */
  takeEmptied(): readonly number[] {
    return this.#segments.takeEmptied(this.#unapplied.applied);
  }

  reuse(segment: number): void {
    this.#segments.reuse(segment);
  }

  /** Makes a segment ahead, so that the first commit need not wait for it. */
  makeReady(): void {
    this.#segments.makeReady();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#unapplied.commits.length > 0) this.#tryToApply();
    await this.#segments[Symbol.asyncDispose]();
    this.#room[Symbol.dispose]();
    await this.#environment.root.close();
  }

  #tryToApply(): boolean {
    try {
      this.#transact(null);
      return true;
    } catch {
      this.#unapplied.retryLater();
      return false;
    }
  }

  /** Returns whether the commit is durable in a segment. */
  #writeToSegment(commit: SegmentCommit): boolean {
    let written: WrittenCommit | null;
    try {
      written = this.#segments.append(this.#unapplied.latest + 1, commit);
    } catch {
      // What of it is in the file does not count: the next commit gets its number and its place.
      return false;
    }
    if (written === null) return false;
    this.#unapplied.add(written);
    return true;
  }

  /** Puts everything that waits and `newest` into LMDB, all or nothing. */
  #transact(newest: CommitRequest | null): void {
    const latest = this.#unapplied.latest + (newest === null ? 0 : 1);
    this.#room.make((newest?.blobs ?? []).map(({ bytes }) => bytes.length));
    const removed = this.#placesOf(newest?.removedBlobs ?? []);
    const environment = this.#environment;
    try {
      environment.root.transactionSync(() => {
        putWritten(environment, this.#unapplied.commits);
        if (newest !== null) {
          removeTrimmed(environment, newest);
          putWhole(environment, newest);
        }
        environment.groups.putSync(APPLIED_KEY, String(latest));
      });
    } catch (error) {
      this.#isLockedUp = isLockedUp(environment);
      throw error;
    }
    this.#unapplied.noteApplied(latest);
    this.#segments.forget(removed);
  }

  #placesOf(seqs: readonly number[]): Place[] {
    if (seqs.length === 0) return [];
    const unapplied = this.#unapplied.places();
    return [...new Set(seqs)].flatMap((seq) => {
      const place = unapplied.get(seq) ?? placeInIndex(this.#environment, seq);
      return place === null ? [] : [place];
    });
  }

  /** Moves a segment's blobs. They are numbered as written, so those of other segments are not looked at, however many there are. */
  #clearOut({ id, firstSeq, lastSeq }: SegmentSpan): void {
    const environment = this.#environment;
    const moved: { seq: number; place: Place }[] = [];
    const range = { start: seqKey(firstSeq), end: seqKey(lastSeq + 1) };
    for (const { key, value } of environment.places.getRange(range)) {
      const place = decodePlace(value);
      if (place.segment === id) moved.push({ seq: seqOf(key), place });
    }
    this.#room.make(moved.map(({ place }) => place.lengthBytes));
    using reader = new SegmentReader(this.#segmentsDir);
    environment.root.transactionSync(() => {
      for (const { seq, place } of moved) {
        putBlob(environment, seq, reader.read(place));
        environment.places.removeSync(seqKey(seq));
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
