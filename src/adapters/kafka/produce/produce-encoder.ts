import { crc32c } from "@node-rs/crc32";
import type { RoomInFront } from "../guards/encoder-guard.ts";
import { varIntBytes, writeVarInt } from "../var-int.ts";

interface Message {
  readonly key?: unknown;
  readonly value: unknown;
  readonly headers?: unknown;
  readonly timestamp?: unknown;
}
interface PlainMessage {
  readonly key: string;
  readonly value: Uint8Array;
}
interface Topic<M> {
  readonly topic: string;
  readonly partitions: readonly { readonly partition: number; readonly messages: readonly M[] }[];
}
/** What kafkajs hands to its own encoder. */
export interface ProduceRequest<M = Message> {
  readonly acks: number;
  readonly timeout: number;
  readonly compression: number;
  readonly transactionalId?: string | null;
  readonly producerId: unknown;
  readonly topicData: readonly Topic<M>[];
}

/** An encoder as kafkajs takes it into a request. */
interface Encoded {
  readonly buf: Buffer;
  readonly buffer: Buffer;
  readonly inFront: RoomInFront;
}

const FIRST_VERSION_WITH_RECORD_BATCHES = 3;
const LAST_VERSION_OF_THIS_FORM = 7;
const NO_PRODUCER_ID = -1;
/** Room for the head of the request, which contains the client's name. */
const ROOM_BYTES = 512;
const BLOCK_BYTES = 64 * 1024;
const MAX_FREE_BLOCKS = 8;
const LARGEST_FREE_BYTES = 1024 * 1024;
const MAGIC = 2;
/** The head of a record batch, before its first record. */
const BATCH_HEAD_BYTES = 61;
const CRC_AT = 17;
const CHECKED_FROM = 21;
/** Upper bounds for the head of a topic, of a partition, and of a record with two lengths and two deltas. */
const TOPIC_BYTES = 6;
const PARTITION_BYTES = 8 + BATCH_HEAD_BYTES;
const RECORD_BYTES = 24;
const MAX_UTF8_BYTES = 3;

/** Memory of answered requests, kept for the next ones: V8 would count each new block as long-lived, and collect all garbage for it. */
export class ProduceBlocks {
  readonly #free: Buffer[] = [];

  take(sizeBytes: number): Buffer {
    const index = this.#free.findIndex(({ length }) => length >= sizeBytes);
    const [found] = index === -1 ? [] : this.#free.splice(index, 1);
    return found ?? Buffer.allocUnsafeSlow(Math.ceil(sizeBytes / BLOCK_BYTES) * BLOCK_BYTES);
  }

  /** Takes back a block that is no longer read, since the broker has answered. */
  giveBack(block: Buffer): void {
    if (this.#free.length < MAX_FREE_BLOCKS && block.length <= LARGEST_FREE_BYTES)
      this.#free.push(block);
  }
}

/**
 * Returns a Produce request, version 3 to 7, that writes its body in one pass: kafkajs copies each record from encoder to encoder, eight
 * times, and takes its checksum byte by byte (bench/what-was-tried.md, "Kafka append path"). What this cannot write (records with headers
 * or of an idempotent producer, and the like) is left to kafkajs.
 */
export function encodedInOnePass<Request extends { readonly apiVersion: number }>(
  request: Request,
  asked: ProduceRequest,
  takeBlock: (sizeBytes: number) => Buffer,
): Request {
  if (!isPlain(asked, request.apiVersion)) return request;
  const encode = async (): Promise<Encoded> => {
    const block = takeBlock(ROOM_BYTES + bytesOf(asked));
    const buf = block.subarray(ROOM_BYTES, write(asked, block, ROOM_BYTES, Date.now()));
    return { buf, buffer: buf, inFront: { block, bytes: ROOM_BYTES, of: buf } };
  };
  return { ...request, encode };
}

function isPlain(asked: ProduceRequest, apiVersion: number): asked is ProduceRequest<PlainMessage> {
  return (
    apiVersion >= FIRST_VERSION_WITH_RECORD_BATCHES &&
    apiVersion <= LAST_VERSION_OF_THIS_FORM &&
    asked.compression === 0 &&
    (asked.transactionalId ?? null) === null &&
    Number(asked.producerId) === NO_PRODUCER_ID &&
    asked.topicData.every(({ partitions }) =>
      partitions.every(({ messages }) => messages.every(isPlainMessage)),
    )
  );
}

/** Returns at least as many bytes as `write` writes. */
function bytesOf({ topicData }: ProduceRequest<PlainMessage>): number {
  let sizeBytes = 12;
  for (const { topic, partitions } of topicData) {
    sizeBytes += TOPIC_BYTES + topic.length * MAX_UTF8_BYTES;
    for (const { messages } of partitions) {
      sizeBytes += PARTITION_BYTES;
      for (const { key, value } of messages)
        sizeBytes += RECORD_BYTES + key.length * MAX_UTF8_BYTES + value.byteLength;
    }
  }
  return sizeBytes;
}

/**
 * Writes by Kafka's protocol guide, "Produce API" and "Record batch" (magic 2).
 * @returns the end of what was written
 */
function write(
  { acks, timeout, topicData }: ProduceRequest<PlainMessage>,
  block: Buffer,
  from: number,
  nowMs: number,
): number {
  let at = block.writeInt16BE(-1, from);
  at = block.writeInt16BE(acks, at);
  at = block.writeInt32BE(timeout, at);
  at = block.writeInt32BE(topicData.length, at);
  for (const { topic, partitions } of topicData) {
    const nameBytes = block.write(topic, at + 2);
    at = block.writeInt16BE(nameBytes, at) + nameBytes;
    at = block.writeInt32BE(partitions.length, at);
    for (const { partition, messages } of partitions) {
      at = block.writeInt32BE(partition, at);
      const batchAt = at + 4;
      const end = writeBatch(block, batchAt, messages, nowMs);
      block.writeInt32BE(end - batchAt, at);
      at = end;
    }
  }
  return at;
}

function writeBatch(
  block: Buffer,
  from: number,
  messages: readonly PlainMessage[],
  nowMs: number,
): number {
  let at = from + BATCH_HEAD_BYTES;
  for (const [offsetDelta, message] of messages.entries())
    at = writeRecord(block, at, offsetDelta, message);
  writeBatchHead(block, from, at, messages.length, BigInt(nowMs));
  block.writeUInt32BE(crc32c(block.subarray(from + CHECKED_FROM, at)), from + CRC_AT);
  return at;
}

function writeBatchHead(
  block: Buffer,
  from: number,
  end: number,
  records: number,
  now: bigint,
): void {
  let at = block.writeBigInt64BE(0n, from); // The broker assigns the offset.
  at = block.writeInt32BE(end - from - 12, at);
  at = block.writeInt32BE(0, at); // The leader's epoch: brokers ignore it.
  at = block.writeInt8(MAGIC, at) + 4; // Then the checksum, written last.
  at = block.writeInt16BE(0, at); // No compression, create time, no transaction.
  at = block.writeInt32BE(records - 1, at);
  at = block.writeBigInt64BE(now, at);
  at = block.writeBigInt64BE(now, at);
  at = block.writeBigInt64BE(BigInt(NO_PRODUCER_ID), at);
  at = block.writeInt16BE(0, at);
  at = block.writeInt32BE(0, at);
  block.writeInt32BE(records, at);
}

function writeRecord(
  block: Buffer,
  from: number,
  offsetDelta: number,
  { key, value }: PlainMessage,
): number {
  const keyBytes = Buffer.byteLength(key);
  const bodyBytes =
    3 + // Attributes, time delta and header count: zero, one byte each.
    varIntBytes(offsetDelta) +
    varIntBytes(keyBytes) +
    keyBytes +
    varIntBytes(value.byteLength) +
    value.byteLength;
  let at = writeVarInt(block, from, bodyBytes);
  block[at++] = 0;
  block[at++] = 0;
  at = writeVarInt(block, at, offsetDelta);
  at = writeVarInt(block, at, keyBytes);
  at += block.write(key, at);
  at = writeVarInt(block, at, value.byteLength);
  block.set(value, at);
  at += value.byteLength;
  block[at++] = 0;
  return at;
}

function isPlainMessage({ key, value, headers, timestamp }: Message): boolean {
  return (
    typeof key === "string" &&
    value instanceof Uint8Array &&
    headers === undefined &&
    timestamp === undefined
  );
}
