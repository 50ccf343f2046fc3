import type { LogRecord } from "../../../domain/log.ts";
import { RECORD_HEAD_BYTES } from "../layout.ts";
import type { Row } from "../layout.ts";

/**
 * Returns the records of a region from `fromOffset` on, up to `maxBytes` of them (but at least one).
 * Their bytes are copied out of it once, so that a record kept for long does not keep the blob that it is a part of.
 */
export function readRegion(
  region: Buffer,
  row: Row,
  fromOffset: number,
  maxBytes: number,
): { readonly records: LogRecord[]; readonly sizeBytes: number; readonly next: number } {
  const end = region.length;
  let at = 0;
  while (at < end && row.base + region.readUInt32BE(at) < fromOffset) at += recordBytes(region, at);
  const first = at;
  while (at < end && (at === first || at + recordBytes(region, at) - first <= maxBytes))
    at += recordBytes(region, at);
  const copy = Buffer.from(region.subarray(first, at));
  const records: LogRecord[] = [];
  for (let from = 0; from < copy.length; from += recordBytes(copy, from)) {
    const keyLength = copy.readUInt16BE(from + 4);
    const keyAt = from + RECORD_HEAD_BYTES;
    const valueAt = keyAt + keyLength;
    records.push({
      topic: row.topic,
      partition: row.partition,
      offset: row.base + copy.readUInt32BE(from),
      key: copy.toString("utf8", keyAt, valueAt),
      value: copy.subarray(valueAt, valueAt + copy.readUInt32BE(from + 6)),
      appendedAtMs: copy.readDoubleBE(from + 10),
    });
  }
  // After a compaction the last offsets of a region may be gone: go on after the region.
  const next = at < end ? row.base + region.readUInt32BE(at) : row.next;
  return { records, sizeBytes: copy.length, next };
}

function recordBytes(bytes: Buffer, at: number): number {
  return RECORD_HEAD_BYTES + bytes.readUInt16BE(at + 4) + bytes.readUInt32BE(at + 6);
}
