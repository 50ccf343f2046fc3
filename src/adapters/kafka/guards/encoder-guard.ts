import { ByteSlab } from "../../../domain/byte-slab.ts";
import { classToGuard } from "./guard-class.ts";

interface Encoder {
  buf: Buffer;
  offset: number;
  ensureAvailable: (this: Encoder, sizeBytes: number) => void;
  writeUVarInt: (this: Encoder, value: number) => Encoder;
  writeVarInt: (this: Encoder, value: number) => Encoder;
  writeVarLong: (this: Encoder, value: unknown) => Encoder;
  writeEncoder: (this: Encoder, value: Encoder) => Encoder;
  inFront?: RoomInFront;
  readonly constructor: EncoderClass;
}
/** Bytes of a block that are free, right in front of the buffer `of`. */
export interface RoomInFront {
  readonly block: Buffer;
  readonly bytes: number;
  readonly of: Buffer;
}
interface EncoderClass {
  nextPowerOfTwo: (value: number) => number;
  sizeOfVarInt: (value: number) => number;
  sizeOfVarLong: (value: unknown) => number;
}

/** What the constructor asks for by default. */
const DEFAULT_SIZE = 511;
/** Room for the small fields that mostly follow. */
const SPARE_BYTES = 64;
/** A longer buffer has many pieces to take in, so it is doubled each time it is full. */
const SHORT_BYTES = 4_096;
const MAX_VARINT_BYTES = 5;

/**
 * Makes kafkajs's encoders take little memory. By itself, every encoder begins with 512 zeroed bytes of its own, and a record goes
 * through eight of them, each copied into the next: 30 KB a record, which V8 counts as long-lived, so that it collects all garbage ten
 * times a second. With this, encoders get pieces of shared blocks, as large as what they write, in memory that V8 does not count; and
 * short numbers are written without an array or a BigInt in between. What is written before a large value that has room in front goes
 * into that room, which saves a copy of the value. Measured in bench/what-was-tried.md, "Kafka append path".
 * Safe to call again.
 */
export function guardEncoder(): void {
  const prototype = classToGuard("protocol/encoder.js") as Encoder | null;
  if (prototype === null) return;
  const slab = new ByteSlab({
    allocate: (sizeBytes) => Buffer.from(new SharedArrayBuffer(sizeBytes)),
  });
  const { constructor: encoder, writeVarLong, writeEncoder } = prototype;
  const { nextPowerOfTwo, sizeOfVarLong } = encoder;

  encoder.nextPowerOfTwo = (value) =>
    value === DEFAULT_SIZE ? 0 : nextPowerOfTwo.call(encoder, value);
  encoder.sizeOfVarLong = (value) =>
    isShort(value) ? encoder.sizeOfVarInt(value) : sizeOfVarLong.call(encoder, value);
  prototype.ensureAvailable = function guarded(sizeBytes) {
    const { buf, offset } = this;
    if (offset + sizeBytes <= buf.length) return;
    const doubled = buf.length > SHORT_BYTES ? buf.length * 2 : 0;
    const wanted = Math.max(offset + sizeBytes + SPARE_BYTES, doubled);
    const { block, at } = slab.reserve(wanted);
    this.buf = slab.keep(block, at, at + wanted);
    buf.copy(this.buf, 0, 0, offset);
  };
  prototype.writeUVarInt = function guarded(value) {
    this.ensureAvailable(MAX_VARINT_BYTES);
    let left = value;
    while ((left & ~0x7f) !== 0) {
      this.buf[this.offset++] = (left & 0x7f) | 0x80;
      left >>>= 7;
    }
    this.buf[this.offset++] = left;
    return this;
  };
  prototype.writeVarLong = function guarded(value) {
    return isShort(value) ? this.writeVarInt(value) : writeVarLong.call(this, value);
  };
  prototype.writeEncoder = function guarded(value) {
    return moveInFront(this, value) ? this : writeEncoder.call(this, value);
  };
}

/** @returns whether there was room; if so, the encoder goes on in the value's block */
function moveInFront(encoder: Encoder, { buf, inFront }: Encoder): boolean {
  // An encoder that has been written to since has another buffer.
  if (inFront === undefined || inFront.of !== buf || inFront.bytes < encoder.offset) return false;
  const { block } = inFront;
  const from = inFront.bytes - encoder.offset;
  encoder.buf.copy(block, from, 0, encoder.offset);
  encoder.buf = block.subarray(from, inFront.bytes + buf.length);
  encoder.offset = encoder.buf.length;
  encoder.inFront = { block, bytes: from, of: encoder.buf };
  return true;
}

/** Returns whether zigzag in 32 bits can hold it. Anything but a whole number goes to kafkajs, which refuses it. */
function isShort(value: unknown): value is number {
  return typeof value === "number" && Number.isInteger(value) && Math.abs(value) < 0x4000_0000;
}
