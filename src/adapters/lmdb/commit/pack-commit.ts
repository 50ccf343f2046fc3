import type { Topic } from "../../../domain/log.ts";
import { CHECKSUM_BYTES, RECORD_HEAD_BYTES } from "../layout.ts";
import type { Row, StreamId } from "../layout.ts";

export interface PackedRecord {
  readonly offset: number;
  readonly keyBytes: Uint8Array;
  readonly value: Uint8Array;
  readonly appendedAtMs: number;
}
export interface StreamRecords extends StreamId {
  readonly records: readonly PackedRecord[];
  /** Offset after the last record; may lie beyond it after a compaction. */
  readonly next: number;
  /** Offset at which the first region starts; at most that of the first record. */
  readonly base: number;
}
export interface PackedBlob {
  readonly seq: number;
  readonly bytes: Uint8Array;
}
export interface PackedCommit {
  readonly blobs: readonly PackedBlob[];
  readonly rows: readonly Row[];
}

const TARGET_BLOB_BYTES = 1024 * 1024;

/** Topics whose records stay long, and never share a blob: one held task must not keep a thousand events on disk. */
const LONG_LIVED: ReadonlySet<Topic> = new Set<Topic>([
  "held",
  "limits",
  "delay-15m",
  "delay-1h",
  "delay-4h",
]);

interface Region extends StreamId {
  readonly records: PackedRecord[];
  bytes: number;
  readonly base: number;
  next: number;
}

/**
 * Lays the records of one commit out in blobs of about 1 MiB (a bigger record has one to itself), in memory from `take`. The commit
 * thread, which has less to do, fills in the checksums (`writeChecksums`).
 */
export function packCommit(
  streams: readonly StreamRecords[],
  firstSeq: number,
  take: (sizeBytes: number) => Buffer = (sizeBytes) => Buffer.allocUnsafe(sizeBytes),
): PackedCommit {
  const blobs: PackedBlob[] = [];
  const rows: Row[] = [];
  const flush = (regions: readonly Region[]) => {
    const seq = firstSeq + blobs.length;
    const out = take(regions.reduce((sum, region) => sum + region.bytes + CHECKSUM_BYTES, 0));
    let at = 0;
    for (const region of regions) {
      const positionBytes = at;
      for (const record of region.records) at = writeRecord(out, at, record, region.base);
      const lengthBytes = at - positionBytes;
      at += CHECKSUM_BYTES;
      rows.push({
        topic: region.topic,
        partition: region.partition,
        base: region.base,
        next: region.next,
        seq,
        positionBytes,
        lengthBytes,
        hasChecksum: true,
        regionsInBlob: regions.length,
        lastAppendedAtMs: Math.trunc(region.records.at(-1)!.appendedAtMs),
      });
    }
    blobs.push({ seq, bytes: out });
  };

  let shared: Region[] = [];
  let sharedBytes = 0;
  for (const stream of streams)
    for (const region of splitIntoRegions(stream)) {
      if (LONG_LIVED.has(region.topic)) {
        flush([region]);
        continue;
      }
      if (sharedBytes > 0 && sharedBytes + region.bytes > TARGET_BLOB_BYTES) {
        flush(shared);
        shared = [];
        sharedBytes = 0;
      }
      shared.push(region);
      sharedBytes += region.bytes;
    }
  if (shared.length > 0) flush(shared);
  return { blobs, rows };
}

function splitIntoRegions(stream: StreamRecords): Region[] {
  const regions: Region[] = [];
  let region: Region | null = null;
  for (const record of stream.records) {
    const bytes = RECORD_HEAD_BYTES + record.keyBytes.length + record.value.length;
    if (region === null || region.bytes + bytes > TARGET_BLOB_BYTES) {
      const base: number = region === null ? stream.base : record.offset;
      if (region !== null) region.next = base;
      region = {
        topic: stream.topic,
        partition: stream.partition,
        records: [],
        bytes: 0,
        base,
        next: stream.next,
      };
      regions.push(region);
    }
    region.records.push(record);
    region.bytes += bytes;
  }
  return regions;
}

function writeRecord(out: Buffer, start: number, record: PackedRecord, base: number): number {
  let at = start;
  out.writeUInt32BE(record.offset - base, at);
  out.writeUInt16BE(record.keyBytes.length, at + 4);
  out.writeUInt32BE(record.value.length, at + 6);
  out.writeDoubleBE(record.appendedAtMs, at + 10);
  at += RECORD_HEAD_BYTES;
  out.set(record.keyBytes, at);
  at += record.keyBytes.length;
  out.set(record.value, at);
  return at + record.value.length;
}
