import type { Database } from "lmdb";
import type { Environment } from "../environment.ts";
import {
  bufferOf,
  decodePlace,
  MAX_OFFSET,
  ROW_BYTES,
  ROW_KEY_BYTES,
  ROW_VALUE_BYTES,
  rowKey,
  seqKey,
  STREAM_KEY_BYTES,
} from "../layout.ts";
import type { Place } from "../layout.ts";

/** Keeps an entry within half a page of LMDB. */
const MAX_ROWS_IN_ENTRY = 64;

type Index = Database<Buffer, Buffer>;

interface Entry {
  readonly key: Buffer;
  readonly value: Buffer;
  rows: number;
  /** The offset at which the next row of the stream must begin to share this entry. */
  next: number;
}

/**
 * Puts rows (`encodeRows`, in the order in which they were committed) into the index. Consecutive ones of a stream
 * share an entry: LMDB takes as long for one row as for sixty.
 */
export function putRows(index: Index, commits: Iterable<Uint8Array>): void {
  const open = new Map<number, Entry>();
  for (const commit of commits) {
    const bytes = bufferOf(commit);
    for (let at = 0; at < bytes.length; at += ROW_BYTES) {
      const stream = bytes.readUIntBE(at, STREAM_KEY_BYTES);
      const base = bytes.readUIntBE(at + STREAM_KEY_BYTES, 6);
      let entry = open.get(stream);
      if (entry === undefined || entry.next !== base || entry.rows === MAX_ROWS_IN_ENTRY) {
        if (entry !== undefined) putEntry(index, entry);
        entry = {
          key: bytes.subarray(at, at + ROW_KEY_BYTES),
          value: Buffer.allocUnsafe(MAX_ROWS_IN_ENTRY * ROW_VALUE_BYTES),
          rows: 0,
          next: base,
        };
        open.set(stream, entry);
      }
      const valueAt = entry.rows * ROW_VALUE_BYTES;
      bytes.copy(entry.value, valueAt, at + ROW_KEY_BYTES, at + ROW_BYTES);
      entry.next = entry.value.readUIntBE(valueAt, 6);
      entry.rows += 1;
    }
  }
  for (const entry of open.values()) putEntry(index, entry);
}

function putEntry(index: Index, { key, value, rows }: Entry): void {
  index.putSync(key, value.subarray(0, rows * ROW_VALUE_BYTES));
}

/** Returns the stream's last entry whose first row begins at `offset` or before it; null if there is none. */
export function entryAtOrBefore(
  index: Index,
  streamKey: Uint8Array,
  offset: number,
): { key: Buffer; value: Buffer } | null {
  const range = {
    start: rowKey(streamKey, offset),
    end: rowKey(streamKey, 0),
    inclusiveEnd: true,
    reverse: true,
    limit: 1,
  };
  for (const entry of index.getRange(range)) return entry;
  return null;
}

/** Returns where a blob is; null if it is in no segment, as far as the index knows. */
export function placeInIndex({ places }: Environment, seq: number): Place | null {
  const value = places.getBinary(seqKey(seq));
  return value === undefined ? null : decodePlace(value);
}

/** Returns the first offset of the stream that was not trimmed. */
export function startInIndex({ starts }: Environment, streamKey: Buffer): number {
  return starts.getBinary(streamKey)?.readUIntBE(0, 6) ?? 0;
}

/** Returns the offset of the next record of a stream, as far as the index knows. */
export function endInIndex(environment: Environment, streamKey: Buffer): number {
  const last = entryAtOrBefore(environment.index, streamKey, MAX_OFFSET);
  return last === null
    ? startInIndex(environment, streamKey)
    : last.value.readUIntBE(last.value.length - ROW_VALUE_BYTES, 6);
}

/** Removes the rows of a stream that hold nothing from `offset` on. */
export function removeRowsBelow(index: Index, streamKey: Uint8Array, offset: number): void {
  const range = { start: rowKey(streamKey, 0), end: rowKey(streamKey, offset) };
  // Collected first, since the loop changes them.
  const entries = [...index.getRange(range)];
  for (const { key, value } of entries) {
    let base = key.readUIntBE(STREAM_KEY_BYTES, 6);
    let at = 0;
    for (; at < value.length; at += ROW_VALUE_BYTES) {
      const next = value.readUIntBE(at, 6);
      if (next > offset) break;
      base = next;
    }
    if (at === 0) continue;
    index.removeSync(key);
    if (at < value.length) index.putSync(rowKey(streamKey, base), value.subarray(at));
  }
}
