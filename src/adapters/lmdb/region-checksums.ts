import { crc32 } from "node:zlib";
import { bufferOf, CHECKSUM_BYTES, regionAt, ROW_BYTES, ROW_KEY_BYTES } from "./layout.ts";
import type { Region } from "./layout.ts";
import type { SegmentCommit } from "./segments/segment-commit.ts";

/** Fills in the checksums of a commit's regions, within its blobs. */
export function writeChecksums({ rows, blobs }: Pick<SegmentCommit, "rows" | "blobs">): void {
  const blobsBySeq = new Map(blobs.map(({ seq, bytes }) => [seq, bufferOf(bytes)]));
  const encoded = bufferOf(rows);
  for (let at = ROW_KEY_BYTES; at < encoded.length; at += ROW_BYTES) {
    const { seq, positionBytes, lengthBytes, hasChecksum } = regionAt(encoded, at);
    if (!hasChecksum) continue;
    const blob = blobsBySeq.get(seq)!;
    const end = positionBytes + lengthBytes;
    blob.writeUInt32BE(checksumOf(blob.subarray(positionBytes, end), seq), end);
  }
}

/** Returns the bytes of a region within its blob, and its checksum if it has one. */
export function storedRegion(blob: Buffer, region: Region): Buffer {
  return blob.subarray(region.positionBytes, region.positionBytes + storedBytes(region));
}

export function storedBytes({ lengthBytes, hasChecksum }: Region): number {
  return lengthBytes + (hasChecksum ? CHECKSUM_BYTES : 0);
}

/** Returns whether a region is as it was written. Of one that has no checksum, nobody knows. */
export function isIntact(stored: Buffer, { seq, lengthBytes, hasChecksum }: Region): boolean {
  if (!hasChecksum) return true;
  return stored.readUInt32BE(lengthBytes) === checksumOf(stored.subarray(0, lengthBytes), seq);
}

/** Begins with the number of the blob, so that what a write that never reached the disk has left there, an earlier blob, is no match. */
function checksumOf(records: Buffer, seq: number): number {
  return crc32(records, seq % 2 ** 32);
}
