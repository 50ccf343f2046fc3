import type { Topic } from "../../domain/log.ts";

/**
 * Layout in LMDB. A transaction holds one or many group commits, which are written to segments first (`segments.ts`). A blob is the
 * records of many streams, region by region:
 *
 *   places   seq (6 bytes)                                   → where its blob is: segment (4) position (4) length (4)
 *   blobs    seq (6)                                         → the blob itself, when it is in no segment
 *   index    topic (1) partition (2) base offset (6)         → where the regions of one stream are: `Row`s that follow one another
 *   starts   topic (1) partition (2)                         → first offset that was not trimmed (6)
 *   refs     seq (6)                                         → regions of a blob that are left, once some were trimmed
 *   groups   JSON [group, topic, partition] or [group]       → commit, or the topics of the group; and single values by name
 *
 * A stream is one (topic, partition). All integers are big endian, so keys sort as numbers do.
 * A record in a region: offset − base (4), key length (2), value length (4), time in ms (8, double), key, value. A region ends with the
 * CRC-32 of its records (4); those of an earlier version do not.
 */
export const TOPIC_IDS = {
  events: 1,
  tasks: 2,
  attempts: 3,
  held: 4,
  limits: 5,
  "delay-1s": 6,
  "delay-4s": 7,
  "delay-15s": 8,
  "delay-1m": 9,
  "delay-4m": 10,
  "delay-15m": 11,
  "delay-1h": 12,
  "delay-4h": 13,
} as const satisfies Record<Topic, number>;

const TOPICS_BY_ID = new Map<number, Topic>(
  Object.entries(TOPIC_IDS).map(([topic, id]) => [id, topic as Topic]),
);

export interface StreamId {
  readonly topic: Topic;
  readonly partition: number;
}

/** Where in a blob the records of one stream are. */
export interface Region {
  readonly seq: number;
  readonly positionBytes: number;
  /** Of the records; the checksum comes after them. */
  readonly lengthBytes: number;
  readonly hasChecksum: boolean;
}

/** Where the records of one stream with offsets in [base, next) are. The stream's next row begins where this one ends. */
export interface Row extends StreamId, Region {
  readonly base: number;
  readonly next: number;
  /** Number of regions in the same blob, which can go once all of them are trimmed. */
  readonly regionsInBlob: number;
  readonly lastAppendedAtMs: number;
}

/** Where a blob is. */
export interface Place {
  readonly segment: number;
  readonly positionBytes: number;
  readonly lengthBytes: number;
}

const PLACE_BYTES = 12;
export const MAX_OFFSET = 2 ** 48 - 1;
export const STREAM_KEY_BYTES = 3;
export const ROW_KEY_BYTES = 9;
export const ROW_VALUE_BYTES = 28;
export const ROW_BYTES = ROW_KEY_BYTES + ROW_VALUE_BYTES;
export const RECORD_HEAD_BYTES = 18;
export const CHECKSUM_BYTES = 4;
/** Of the length as a row holds it, which is far below: whether there is a checksum. */
const CHECKSUM_BIT = 2 ** 31;

export function streamKey(stream: StreamId): Buffer {
  const key = Buffer.allocUnsafe(STREAM_KEY_BYTES);
  key[0] = TOPIC_IDS[stream.topic];
  key.writeUInt16BE(stream.partition, 1);
  return key;
}

/** Returns the key of a row; `prefix` is the `streamKey` of its stream. */
export function rowKey(prefix: Uint8Array, base: number): Buffer {
  const key = Buffer.allocUnsafe(ROW_KEY_BYTES);
  key.set(prefix);
  key.writeUIntBE(base, STREAM_KEY_BYTES, 6);
  return key;
}

export function seqKey(seq: number): Buffer {
  const key = Buffer.allocUnsafe(6);
  key.writeUIntBE(seq, 0, 6);
  return key;
}

export function seqOf(key: Buffer): number {
  return key.readUIntBE(0, 6);
}

export function encodePlace({ segment, positionBytes, lengthBytes }: Place): Buffer {
  const value = Buffer.allocUnsafe(PLACE_BYTES);
  value.writeUInt32BE(segment, 0);
  value.writeUInt32BE(positionBytes, 4);
  value.writeUInt32BE(lengthBytes, 8);
  return value;
}

export function decodePlace(value: Buffer): Place {
  return {
    segment: value.readUInt32BE(0),
    positionBytes: value.readUInt32BE(4),
    lengthBytes: value.readUInt32BE(8),
  };
}

/** Writes key and value of every row, one after the other, as they are sent to the commit thread. */
export function encodeRows(rows: readonly Row[]): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(rows.length * ROW_BYTES);
  const out = Buffer.from(bytes.buffer);
  let at = 0;
  for (const row of rows) {
    out[at] = TOPIC_IDS[row.topic];
    out.writeUInt16BE(row.partition, at + 1);
    out.writeUIntBE(row.base, at + 3, 6);
    out.writeUIntBE(row.next, at + 9, 6);
    out.writeUIntBE(row.seq, at + 15, 6);
    out.writeUInt32BE(row.positionBytes, at + 21);
    out.writeUInt32BE(row.lengthBytes + (row.hasChecksum ? CHECKSUM_BIT : 0), at + 25);
    out.writeUInt16BE(row.regionsInBlob, at + 29);
    out.writeUIntBE(row.lastAppendedAtMs, at + 31, 6);
    at += ROW_BYTES;
  }
  return bytes;
}

/** Returns where the region of an encoded row is; `at`: where the row's value begins. */
export function regionAt(value: Buffer, at: number): Region {
  const length = value.readUInt32BE(at + 16);
  const hasChecksum = length >= CHECKSUM_BIT;
  return {
    seq: value.readUIntBE(at + 6, 6),
    positionBytes: value.readUInt32BE(at + 12),
    lengthBytes: hasChecksum ? length - CHECKSUM_BIT : length,
    hasChecksum,
  };
}

/** Returns the rows of an index entry that hold offsets from `offset` on. */
export function decodeRows(stream: StreamId, key: Buffer, value: Buffer, offset: number): Row[] {
  const { topic, partition } = stream;
  const rows: Row[] = [];
  let base = key.readUIntBE(STREAM_KEY_BYTES, 6);
  for (let at = 0; at < value.length; at += ROW_VALUE_BYTES) {
    const next = value.readUIntBE(at, 6);
    if (next > offset) {
      const { seq, positionBytes, lengthBytes, hasChecksum } = regionAt(value, at);
      rows.push({
        topic,
        partition,
        base,
        next,
        seq,
        positionBytes,
        lengthBytes,
        hasChecksum,
        regionsInBlob: value.readUInt16BE(at + 20),
        lastAppendedAtMs: value.readUIntBE(at + 22, 6),
      });
    }
    base = next;
  }
  return rows;
}

/** @throws {Error} when the topic is unknown: written by a newer relay */
export function topicOfId(id: number): Topic {
  const topic = TOPICS_BY_ID.get(id);
  if (topic === undefined)
    throw new Error(`the embedded log holds an unknown topic (${id}): use a newer relay`);
  return topic;
}

/** Returns the same bytes, as what LMDB and Node's readers of numbers take. */
export function bufferOf({ buffer, byteOffset, byteLength }: Uint8Array): Buffer {
  return Buffer.from(buffer, byteOffset, byteLength);
}
