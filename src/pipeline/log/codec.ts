import { Packr } from "msgpackr";

/**
 * Layout of every record value in the log:
 *
 *   byte 0       version (1)
 *   bytes 1..4   length of the head, big endian
 *   head         MessagePack array of fields, in the order of the record's own codec
 *   rest         raw bytes (an event's body, or a whole encoded event inside a task)
 */
const VERSION = 1;
export const RECORD_PREFIX_BYTES = 5;
const packr = new Packr({ useRecords: false, int64AsType: "number" });

/** @param rest in pieces, so that a body need not be joined with what lies around it first */
export function encodeRecord(head: readonly unknown[], rest: readonly Uint8Array[]): Buffer {
  const packed = packr.pack(head);
  const restBytes = rest.reduce((sum, piece) => sum + piece.length, 0);
  const out = Buffer.allocUnsafe(RECORD_PREFIX_BYTES + packed.length + restBytes);
  writeRecordPrefix(out, 0, packed.length);
  out.set(packed, RECORD_PREFIX_BYTES);
  let at = RECORD_PREFIX_BYTES + packed.length;
  for (const piece of rest) {
    out.set(piece, at);
    at += piece.length;
  }
  return out;
}

export function writeRecordPrefix(out: Buffer, at: number, headBytes: number): void {
  out[at] = VERSION;
  out.writeUInt32BE(headBytes, at + 1);
}

/** @throws {Error} when the value was not written by this codec (a foreign or newer record). */
export function decodeRecord(value: Uint8Array): { head: unknown[]; rest: Uint8Array } {
  if (value.length < RECORD_PREFIX_BYTES || value[0] !== VERSION)
    throw new Error(
      `log record of unknown version ${value[0] ?? "(empty)"}: was it written by a newer relay?`,
    );
  const headBytes = new DataView(value.buffer, value.byteOffset, value.byteLength).getUint32(1);
  const restAt = RECORD_PREFIX_BYTES + headBytes;
  if (restAt > value.length) throw new Error("log record is cut short");
  const head = unpack(value.subarray(RECORD_PREFIX_BYTES, restAt));
  if (!Array.isArray(head)) throw new Error("log record without a head");
  return { head, rest: value.subarray(restAt) };
}

/** Hides the codec's own error, which quotes what it has read: that may be a webhook's headers. */
function unpack(head: Uint8Array): unknown {
  try {
    return packr.unpack(head);
  } catch {
    throw new Error("log record with a damaged head");
  }
}
