/** What the log sends its commit thread: one durable LMDB transaction. All lists may be empty. */
export interface CommitRequest {
  readonly id: number;
  readonly blobs: readonly { readonly seq: number; readonly bytes: ArrayBuffer }[];
  /** `encodeRows`: key and value, fixed width. Into the index. */
  readonly rows: Uint8Array<ArrayBuffer>;
  /** Those of this commit, to be put into the index by a later one; null when there are none. */
  readonly unindexed: { readonly commit: number; readonly rows: Uint8Array<ArrayBuffer> } | null;
  /** Commits whose rows are in `rows` now. */
  readonly indexedCommits: readonly number[];
  readonly removedRows: readonly Uint8Array[];
  readonly removedBlobs: readonly number[];
  readonly refs: readonly (readonly [seq: number, regionsLeft: number])[];
  readonly starts: readonly (readonly [streamKey: Uint8Array, offset: number])[];
  readonly groups: readonly (readonly [key: string, json: string])[];
}

/** `blobs` are the buffers of the request, handed back without a copy. */
export interface CommitReply {
  readonly id: number;
  readonly blobs: readonly ArrayBuffer[];
  readonly error: string | null;
}

export interface CommitWorkerData {
  readonly path: string;
  readonly mapSizeBytes: number;
}
