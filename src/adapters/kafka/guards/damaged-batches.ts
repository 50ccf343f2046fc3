import { crc32c } from "@node-rs/crc32";
import type { KafkaMessage } from "kafkajs";
import { varIntBytes, writeVarInt } from "../var-int.ts";

/** Record attributes, which Kafka does not use: a record with these stands for a damaged batch. */
const DAMAGED = 0x7f;
/** From this version on, records come as batches with a CRC-32C each (Kafka 0.11). */
const MIN_VERSION = 4;

const MAGIC = 2;
const MAGIC_AT = 16;
const CRC_AT = 17;
const CHECKED_FROM = 21;
const LAST_DELTA_AT = 23;
const COUNT_AT = 57;
const RECORDS_AT = 61;
/** Of the offset and the length, which the length does not count. */
const PREFIX_BYTES = 12;
/** -1 as a length, which stands for null. */
const NO_BYTES = 1;

/** Returns the offset of the first record that is lost with the damaged batch that this message stands for; null for any other message. */
export function damagedFrom(message: KafkaMessage): number | null {
  if (message.attributes !== DAMAGED) return null;
  const { batchContext } = message as KafkaMessage & {
    readonly batchContext: { readonly firstOffset: string };
  };
  return Number(batchContext.firstOffset);
}

/**
 * Compares the checksum of each batch of a fetch response, and puts one record in place of all those of a batch that does not match:
 * without a key and a value, at the batch's last offset (see `damagedFrom`). kafkajs compares none, and brokers only that of what they
 * append: what changes on a broker's disk would be delivered as genuine, or could not be decoded, again and again.
 *
 * By Kafka's protocol guide, "Fetch API" (versions 4 to 11) and "Record batch" (magic 2). Writes into `response`.
 */
export function markDamagedBatches(response: Buffer, version: number): void {
  if (version < MIN_VERSION) return;
  let at = 4; // The time of throttling.
  if (version >= 7) at += 6; // An error code, and the session.
  const topics = response.readInt32BE(at);
  at += 4;
  for (let topic = 0; topic < topics; topic += 1) {
    at += 2 + response.readInt16BE(at);
    const partitions = response.readInt32BE(at);
    at += 4;
    for (let partition = 0; partition < partitions; partition += 1) {
      at += 6; // The partition, and an error code.
      const highWatermark = response.readBigInt64BE(at);
      at += version >= 5 ? 24 : 16; // With the last stable offset, and the log's start.
      at += 4 + Math.max(0, response.readInt32BE(at)) * 16; // Aborted transactions.
      if (version >= 11) at += 4; // The replica to prefer.
      const sizeBytes = Math.max(0, response.readInt32BE(at));
      at += 4;
      markDamaged(response.subarray(at, at + sizeBytes), highWatermark);
      at += sizeBytes;
    }
  }
}

/** `batches` may end with a part of one. */
function markDamaged(batches: Buffer, highWatermark: bigint): void {
  for (let at = 0; at + RECORDS_AT <= batches.byteLength;) {
    const end = at + PREFIX_BYTES + batches.readInt32BE(at + 8);
    if (end < at + RECORDS_AT || end > batches.byteLength) return;
    const batch = batches.subarray(at, end);
    const hasNext = end + RECORDS_AT <= batches.byteLength;
    // Older formats have no such checksum.
    if (batch[MAGIC_AT]! >= MAGIC && isDamaged(batch))
      replace(batch, hasNext ? batches.readBigInt64BE(end) : highWatermark);
    at = end;
  }
}

function isDamaged(batch: Buffer): boolean {
  return (
    batch[MAGIC_AT] !== MAGIC || crc32c(batch.subarray(CHECKED_FROM)) !== batch.readUInt32BE(CRC_AT)
  );
}

/** @param bound offset that the batch ends before */
function replace(batch: Buffer, bound: bigint): void {
  const delta = lastDeltaOf(batch, Number(bound - batch.readBigInt64BE(0)) - 1);
  // Attributes, time delta and offset delta, neither key nor value, no headers.
  const recordBytes = varIntBytes(delta) + 5;
  if (RECORDS_AT + 1 + recordBytes > batch.byteLength) return;
  batch.fill(0, MAGIC_AT);
  batch[MAGIC_AT] = MAGIC;
  batch.writeInt32BE(delta, LAST_DELTA_AT);
  batch.writeInt32BE(1, COUNT_AT);
  let at = writeVarInt(batch, RECORDS_AT, recordBytes);
  batch[at++] = DAMAGED;
  batch[at++] = 0;
  at = writeVarInt(batch, at, delta);
  batch[at++] = NO_BYTES;
  batch[at++] = NO_BYTES;
  batch[at] = 0;
}

/** Returns the distance of the last record from the first. It may be what is damaged: then the number of records has to do. */
function lastDeltaOf(batch: Buffer, max: number): number {
  const stated = [batch.readInt32BE(LAST_DELTA_AT), batch.readInt32BE(COUNT_AT) - 1];
  return stated.find((delta) => delta >= 0 && delta <= max) ?? 0;
}
