import type { SegmentCommit } from "../segments/segment-commit.ts";
import type { UnreadableCommits } from "./unreadable-commits.ts";

/**
 * What the log sends its commit thread, all of which becomes durable, or nothing. Any list may be empty. The blobs are in shared
 * memory, and unchanged until this is answered.
 */
export interface CommitRequest extends SegmentCommit {
  readonly kind: "commit";
  readonly id: number;
  /** Removes rows of the stream that hold nothing from `offset` on, before `rows` are put. */
  readonly removedBelow: readonly (readonly [streamKey: Uint8Array, offset: number])[];
  readonly removedBlobs: readonly number[];
  readonly refs: readonly (readonly [seq: number, regionsLeft: number])[];
  readonly starts: readonly (readonly [streamKey: Uint8Array, offset: number])[];
}

/** Returns whether a segment can take it. */
export function onlyAdds({ removedBelow, removedBlobs, refs, starts }: CommitRequest): boolean {
  return (
    removedBelow.length === 0 &&
    removedBlobs.length === 0 &&
    refs.length === 0 &&
    starts.length === 0
  );
}

/** Nothing was written. `store_locked_up`: nor will anything be until the files are reopened. */
export interface CommitError {
  readonly code: "not_written" | "store_locked_up";
  readonly message: string;
}

export type ToCommitThread =
  | CommitRequest
  /** Answers `emptied`: nothing reads from this segment any more. */
  | { readonly kind: "reuse"; readonly segment: number }
  | { readonly kind: "close" };

export type FromCommitThread =
  | { readonly kind: "ready"; readonly unreadable: UnreadableCommits | null }
  | {
      readonly kind: "committed";
      readonly id: number;
      readonly error: CommitError | null;
    }
  /** This request and all before it are in LMDB now; may come before or after its answer. */
  | { readonly kind: "applied"; readonly id: number }
  /** Nothing in this segment is needed any more, as LMDB shows after `applied`. */
  | { readonly kind: "emptied"; readonly segment: number };

export interface CommitWorkerData {
  readonly path: string;
  readonly segmentsDir: string;
  readonly mapSizeBytes: number;
}
