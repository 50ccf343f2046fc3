import { join } from "node:path";
import type { CommitRequest } from "../../src/adapters/lmdb/commit/commit-protocol.ts";
import { openEnvironment } from "../../src/adapters/lmdb/environment.ts";
import { decodePlace, seqKey } from "../../src/adapters/lmdb/layout.ts";
import { SegmentReader } from "../../src/adapters/lmdb/segments/segment-reader.ts";

type Commit = Pick<CommitRequest, "id" | "blobs" | "removedBlobs">;

/** The group that every commit writes, with the commit's id as its value. */
export const GROUP = "latest";

export const blobOf = (seq: number, sizeBytes: number) => ({
  seq,
  bytes: Buffer.alloc(sizeBytes, `blob ${seq} `),
});

/** What a log must hold whatever happens to it: everything answered, and nothing removed. */
export class CommitModel {
  readonly #sizes = new Map<number, number>();
  readonly #gone = new Set<number>();
  #latest = 0;
  #unanswered: Commit | null = null;

  /** The blobs held, which a trim may remove. */
  get kept(): readonly number[] {
    return [...this.#sizes.keys()];
  }

  answered({ id, blobs, removedBlobs }: Commit): void {
    this.#latest = id;
    for (const { seq, bytes } of blobs) this.#sizes.set(seq, bytes.length);
    for (const seq of removedBlobs) this.#remove(seq);
  }

  /** Notes a commit during which the machine stopped: it is there whole or not at all. */
  unanswered(commit: Commit): void {
    this.#unanswered = commit;
  }

  /** Checks a log that was opened in `dir`. @throws {Error} that says what is wrong */
  async check(dir: string, { path, mapSizeBytes }: { path: string; mapSizeBytes: number }) {
    const { root, places, blobs, groups } = openEnvironment(path, mapSizeBytes);
    using reader = new SegmentReader(join(dir, "segments"));
    const wrong: string[] = [];
    const find = (seq: number): Buffer | null => {
      const place = places.getBinary(seqKey(seq));
      if (place === undefined) return blobs.getBinary(seqKey(seq)) ?? null;
      return reader.read(decodePlace(place));
    };
    const latest = Number(groups.get(GROUP) ?? 0);
    this.#decide(latest);
    if (latest !== this.#latest) wrong.push(`the group is of ${latest}, not of ${this.#latest}`);
    for (const [seq, sizeBytes] of this.#sizes) {
      const found = find(seq);
      if (found === null) wrong.push(`blob ${seq} is missing`);
      else if (!found.equals(blobOf(seq, sizeBytes).bytes)) wrong.push(`blob ${seq} is another`);
    }
    for (const seq of this.#gone) if (find(seq) !== null) wrong.push(`blob ${seq} is back`);
    await root.close();
    if (wrong.length > 0) throw new Error(wrong.join(", "));
  }

  #decide(latest: number): void {
    const unanswered = this.#unanswered;
    this.#unanswered = null;
    if (unanswered === null) return;
    if (unanswered.id === latest) this.answered(unanswered);
    else for (const { seq } of unanswered.blobs) this.#remove(seq);
  }

  #remove(seq: number): void {
    this.#sizes.delete(seq);
    this.#gone.add(seq);
  }
}
