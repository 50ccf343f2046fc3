import { RingQueue } from "../../../domain/ring-queue.ts";
import type { PackedBlob } from "./pack-commit.ts";

/** The blobs of one commit, where the commit thread can read them. */
export interface SharedBlobs {
  readonly blobs: readonly SharedBlob[];
  /** Where they begin, counted over all rounds of the memory; null if they have memory of their own. */
  readonly from: number | null;
  readonly sizeBytes: number;
}
interface SharedBlob {
  readonly seq: number;
  readonly bytes: Buffer;
}

interface KeptCommit {
  readonly id: number;
  readonly from: number | null;
  readonly lastSeq: number;
  blobs: readonly SharedBlob[];
}

/**
 * The latest blobs, in memory that the commit thread shares, written round and round: no blob is sent, and the
 * collector counts none (see "The collector" in bench/what-was-tried.md). What readers of LMDB do not see yet is never overwritten; a
 * commit for which no room is left has memory of its own until they do.
 *
 * One commit at a time: `write`, then `keep` once it is durable, or nothing if it failed.
 */
export class RecentBlobs {
  readonly #memory: Buffer;
  /** Bytes taken from it since it was made, including what was left unused at its end. */
  #takenBytes = 0;
  /** In the order of their ids, and of the numbers of their blobs. */
  readonly #commits = new RingQueue<KeptCommit>();
  #appliedId = 0;

  constructor(capacityBytes: number) {
    this.#memory = Buffer.from(new SharedArrayBuffer(capacityBytes));
  }

  /** Copies the blobs of the next commit. */
  write(blobs: readonly PackedBlob[]): SharedBlobs {
    const sizeBytes = blobs.reduce((sum, { bytes }) => sum + bytes.length, 0);
    const from = this.#makeRoom(sizeBytes);
    const memory = from === null ? Buffer.from(new SharedArrayBuffer(sizeBytes)) : this.#memory;
    let at = from === null ? 0 : from % memory.length;
    const shared = blobs.map(({ seq, bytes }) => {
      memory.set(bytes, at);
      at += bytes.length;
      return { seq, bytes: memory.subarray(at - bytes.length, at) };
    });
    return { blobs: shared, from, sizeBytes };
  }

  /** Keeps what `write` returned, which is durable as the commit `id`. */
  keep(id: number, { blobs, from, sizeBytes }: SharedBlobs): void {
    const last = blobs.at(-1);
    if (last === undefined || (from === null && id <= this.#appliedId)) return;
    if (from !== null) this.#takenBytes = from + sizeBytes;
    this.#commits.push({ id, from, lastSeq: last.seq, blobs });
  }

  /** Notes that readers of LMDB see this commit and all before it. */
  applied(id: number): void {
    let at = this.#commits.lowerBound((commit) => commit.id > this.#appliedId);
    this.#appliedId = id;
    for (let next = this.#commits.at(at); next && next.id <= id; next = this.#commits.at(++at))
      if (next.from === null) next.blobs = [];
  }

  get(seq: number): Buffer | null {
    return this.#holderOf(seq)?.blobs.find((blob) => blob.seq === seq)?.bytes ?? null;
  }

  remove(seq: number): void {
    const holder = this.#holderOf(seq);
    if (holder !== undefined) holder.blobs = holder.blobs.filter((blob) => blob.seq !== seq);
  }

  /** Forgets everything: the files were reopened, so all of it is in LMDB, and numbers may be given again. */
  clear(): void {
    this.#commits.clear();
  }

  #holderOf(seq: number): KeptCommit | undefined {
    return this.#commits.at(this.#commits.lowerBound(({ lastSeq }) => lastSeq >= seq));
  }

  /** Lets go of what will be overwritten. Returns null if that is still needed, or the memory is too small. */
  #makeRoom(sizeBytes: number): number | null {
    const capacity = this.#memory.length;
    if (sizeBytes > capacity || capacity === 0) return null;
    const leftAtEnd = capacity - (this.#takenBytes % capacity);
    const from = this.#takenBytes + (sizeBytes <= leftAtEnd ? 0 : leftAtEnd);
    const overwrittenBelow = from + sizeBytes - capacity;
    for (let oldest = this.#commits.at(0); oldest; oldest = this.#commits.at(0)) {
      if (oldest.from !== null && oldest.from >= overwrittenBelow) break;
      if (oldest.id > this.#appliedId) return null;
      this.#commits.shift();
    }
    return from;
  }
}
