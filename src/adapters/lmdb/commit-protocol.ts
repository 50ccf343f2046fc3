/** What the log sends its commit thread: all of it durable, or nothing. All lists may be empty. */
export interface CommitRequest {
  readonly id: number;
  readonly blobs: readonly { readonly seq: number; readonly bytes: ArrayBuffer }[];
  /** `encodeRows`: key and value, fixed width. */
  readonly rows: Uint8Array<ArrayBuffer>;
  readonly groups: readonly (readonly [key: string, json: string])[];
  readonly removedRows: readonly Uint8Array[];
  readonly removedBlobs: readonly number[];
  readonly refs: readonly (readonly [seq: number, regionsLeft: number])[];
  readonly starts: readonly (readonly [streamKey: Uint8Array, offset: number])[];
}

export type FromCommitThread =
  | {
      readonly kind: "committed";
      readonly id: number;
      /** The buffers of the request, handed back without a copy. */
      readonly blobs: readonly ArrayBuffer[];
      readonly error: string | null;
    }
  /** This request and all before it are in LMDB now; may come before its answer, or after. */
  | { readonly kind: "applied"; readonly id: number };

export interface CommitWorkerData {
  readonly path: string;
  /** Of the write-ahead file. */
  readonly aheadPath: string;
  readonly mapSizeBytes: number;
}
