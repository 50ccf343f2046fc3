import { asBinary } from "lmdb";
import type { CommitRequest } from "./commit-protocol.ts";
import { putRows, removeRowsBelow } from "./index-entries.ts";
import type { Environment } from "../environment.ts";
import { encodePlace, seqKey } from "../layout.ts";
import type { WrittenCommit } from "../segments/read-segment.ts";
import type { SegmentCommit } from "../segments/segment-commit.ts";

/** What commits change in LMDB. Each of these is called within a transaction. */

/** Puts what finds the records of commits that are in segments. */
export function putWritten(environment: Environment, commits: readonly WrittenCommit[]): void {
  for (const { places, groups } of commits) {
    for (const [seq, place] of places) environment.places.putSync(seqKey(seq), encodePlace(place));
    putGroups(environment, groups);
  }
  putRows(
    environment.index,
    commits.map(({ rows }) => rows),
  );
}

/** Puts all of a commit that is in no segment. */
export function putWhole(environment: Environment, { blobs, rows, groups }: SegmentCommit): void {
  // Copied: LMDB's binding is not made for shared memory.
  for (const { seq, bytes } of blobs) putBlob(environment, seq, Buffer.from(bytes));
  putRows(environment.index, [rows]);
  putGroups(environment, groups);
}

export function putBlob({ blobs }: Environment, seq: number, bytes: Buffer): void {
  blobs.putSync(seqKey(seq), asBinary(bytes) as Buffer);
}

function putGroups({ groups }: Environment, entries: SegmentCommit["groups"]): void {
  for (const [key, json] of entries) groups.putSync(key, json);
}

/** Removes what a commit removes, and puts what is left: regions of its blobs, and where streams begin. */
export function removeTrimmed(
  { index, places, blobs, refs, starts }: Environment,
  trimmed: CommitRequest,
): void {
  for (const [key, offset] of trimmed.removedBelow) removeRowsBelow(index, key, offset);
  for (const seq of trimmed.removedBlobs) {
    const key = seqKey(seq);
    // A blob is in a segment or in LMDB.
    if (!places.removeSync(key)) blobs.removeSync(key);
    refs.removeSync(key);
  }
  for (const [seq, left] of trimmed.refs) {
    const value = Buffer.alloc(2);
    value.writeUInt16BE(left);
    refs.putSync(seqKey(seq), value);
  }
  for (const [key, offset] of trimmed.starts) starts.putSync(Buffer.from(key), seqKey(offset));
}
