import { crc32 } from "node:zlib";

const MAGIC = 0x77_61_6c_31;
const MAGIC_BYTES = Buffer.from("wal1");
export const COMMIT_HEAD_BYTES = 32;
/** What checksums of an earlier version begin with: no secret. */
export const EARLIER_SEED = 0;
const BLOB_HEAD_BYTES = 10;

/** A commit that only adds, which is all that a segment can take. */
export interface SegmentCommit {
  readonly blobs: readonly { readonly seq: number; readonly bytes: Uint8Array }[];
  /** `encodeRows`: key and value, fixed width. */
  readonly rows: Uint8Array;
  readonly groups: readonly (readonly [key: string, json: string])[];
}

export interface EncodedCommit {
  /** To be written one after the other; none is empty. */
  readonly parts: readonly Uint8Array[];
  readonly sizeBytes: number;
  /** Where the first blob begins. */
  readonly blobsAt: number;
}

export interface DecodedCommit extends Omit<EncodedCommit, "parts"> {
  readonly number: number;
  readonly commit: SegmentCommit;
}

/**
 * Encodes a commit as it lies in a segment:
 *
 *   magic (4)  CRC-32 of all that follows (4)  number of the commit (8)
 *   blobs (4)  bytes of the rows (4)  of the groups (4)  of all blobs (4)
 *   seq (6) and length (4) of every blob, rows (`encodeRows`), groups as JSON, blobs
 *
 * The checksum begins with `seed`, a secret of this log: what is left of earlier payloads after the latest commit might
 * have been made to look like the next one.
 */
export function encodeCommit(
  number: number,
  { blobs, rows, groups }: SegmentCommit,
  seed: number,
): EncodedCommit {
  const json = Buffer.from(groups.length === 0 ? "" : JSON.stringify(groups));
  const head = Buffer.alloc(COMMIT_HEAD_BYTES + blobs.length * BLOB_HEAD_BYTES);
  head.writeUInt32BE(MAGIC, 0);
  head.writeBigUInt64BE(BigInt(number), 8);
  head.writeUInt32BE(blobs.length, 16);
  head.writeUInt32BE(rows.length, 20);
  head.writeUInt32BE(json.length, 24);
  const parts: Uint8Array[] = [head, rows, json];
  let blobBytes = 0;
  for (const [index, { seq, bytes }] of blobs.entries()) {
    const at = COMMIT_HEAD_BYTES + index * BLOB_HEAD_BYTES;
    head.writeUIntBE(seq, at, 6);
    head.writeUInt32BE(bytes.byteLength, at + 6);
    blobBytes += bytes.byteLength;
    parts.push(bytes);
  }
  head.writeUInt32BE(blobBytes, 28);
  // For no bytes at all, zlib's checksum would begin anew.
  const written = parts.filter((part) => part.byteLength > 0);
  let checksum = crc32(head.subarray(8), seed);
  for (const part of written.slice(1)) checksum = crc32(part, checksum);
  head.writeUInt32BE(checksum, 4);
  const blobsAt = head.length + rows.length + json.length;
  return { parts: written, sizeBytes: blobsAt + blobBytes, blobsAt };
}

/** Returns views into `bytes`; null if they do not begin with a whole commit. */
export function decodeCommit(bytes: Buffer, seed: number): DecodedCommit | null {
  const sizeBytes = sizeAtStart(bytes);
  if (sizeBytes === null || sizeBytes > bytes.length) return null;
  if (crc32(bytes.subarray(8, sizeBytes), seed) !== bytes.readUInt32BE(4)) return null;
  const blobCount = bytes.readUInt32BE(16);
  const rowsAt = COMMIT_HEAD_BYTES + blobCount * BLOB_HEAD_BYTES;
  const groupsAt = rowsAt + bytes.readUInt32BE(20);
  const blobsAt = groupsAt + bytes.readUInt32BE(24);
  const blobs: { seq: number; bytes: Buffer }[] = [];
  let at = blobsAt;
  for (let index = 0; index < blobCount; index += 1) {
    const headAt = COMMIT_HEAD_BYTES + index * BLOB_HEAD_BYTES;
    const end = at + bytes.readUInt32BE(headAt + 6);
    blobs.push({ seq: bytes.readUIntBE(headAt, 6), bytes: bytes.subarray(at, end) });
    at = end;
  }
  const json = bytes.toString("utf8", groupsAt, blobsAt);
  return {
    number: Number(bytes.readBigUInt64BE(8)),
    sizeBytes,
    blobsAt,
    commit: {
      blobs,
      rows: bytes.subarray(rowsAt, groupsAt),
      groups: json === "" ? [] : (JSON.parse(json) as SegmentCommit["groups"]),
    },
  };
}

/** Returns the length of the commit that begins here, whole or not; null if none does. */
export function sizeAtStart(bytes: Buffer): number | null {
  if (bytes.length < COMMIT_HEAD_BYTES || bytes.readUInt32BE(0) !== MAGIC) return null;
  const rest = bytes.readUInt32BE(20) + bytes.readUInt32BE(24) + bytes.readUInt32BE(28);
  return COMMIT_HEAD_BYTES + bytes.readUInt32BE(16) * BLOB_HEAD_BYTES + rest;
}

/** Returns where something that may be a commit begins, at `from` or later; -1 if nothing does. */
export function findHead(bytes: Buffer, from: number): number {
  return bytes.indexOf(MAGIC_BYTES, from);
}
