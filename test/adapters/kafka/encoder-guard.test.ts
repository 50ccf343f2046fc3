import { createRequire } from "node:module";
import fc from "fast-check";
import { expect, test } from "vitest";
import { guardEncoder } from "../../../src/adapters/kafka/guards/encoder-guard.ts";

interface Encoder {
  readonly buffer: Buffer;
  size(): number;
  [write: string]: unknown;
}
interface EncoderClass {
  new (initialSize?: number): Encoder;
  sizeOfVarLong(value: number): number;
}

const load = createRequire(import.meta.url);
const PATH = "kafkajs/src/protocol/encoder.js";

/** Loads the package's class as a separate copy, before the guard changes the shared one. */
function loadUnguarded(): EncoderClass {
  const unguarded = load(PATH) as EncoderClass;
  // oxlint-disable-next-line typescript/no-dynamic-delete
  delete load.cache[load.resolve(PATH)];
  return unguarded;
}

const Original = loadUnguarded();
guardEncoder();
guardEncoder();
const Guarded = load(PATH) as EncoderClass;

type Writes = readonly (readonly [method: string, value: unknown])[];

const int = (bits: number) => fc.integer({ min: -(2 ** (bits - 1)), max: 2 ** (bits - 1) - 1 });
const bytes = fc
  .uint8Array({ maxLength: 3_000 })
  .map((array) => Buffer.from(array.buffer, array.byteOffset, array.length));
const { writes } = fc.letrec<{ writes: Writes; write: Writes[number] }>((tie) => ({
  writes: fc.array(tie("write"), { maxLength: 12 }),
  write: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    fc.tuple(fc.constant("writeInt8"), int(8)),
    fc.tuple(fc.constant("writeInt16"), int(16)),
    fc.tuple(fc.constantFrom("writeInt32", "writeVarInt"), int(32)),
    fc.tuple(fc.constant("writeUVarInt"), fc.nat()),
    fc.tuple(fc.constantFrom("writeInt64", "writeVarLong"), fc.maxSafeInteger()),
    fc.tuple(fc.constant("writeVarLong"), int(32)),
    fc.tuple(
      fc.constantFrom("writeString", "writeVarIntString", "writeUVarIntString"),
      fc.option(fc.string({ unit: "binary", maxLength: 300 })),
    ),
    fc.tuple(
      fc.constantFrom("writeBytes", "writeVarIntBytes", "writeUVarIntBytes"),
      fc.option(bytes),
    ),
    fc.tuple(fc.constant("writeBuffer"), bytes),
    fc.tuple(fc.constant("writeEncoder"), tie("writes")),
  ),
}));

function encoderOf(From: EncoderClass, sequence: Writes): Encoder {
  const encoder = new From();
  for (const [method, value] of sequence) {
    const given = method === "writeEncoder" ? encoderOf(From, value as Writes) : value;
    (encoder[method] as (value: unknown) => unknown)(given);
  }
  expect(encoder.size()).toBe(encoder.buffer.length);
  return encoder;
}

test("encoders with shared memory write what those of kafkajs write", () => {
  expect(Guarded).not.toBe(Original);
  fc.assert(
    fc.property(writes, (sequence) => {
      const [guarded, original] = [Guarded, Original].map(
        (From) => encoderOf(From, sequence).buffer,
      );
      expect(guarded!.equals(original!)).toBe(true);
    }),
    { numRuns: 2_000 },
  );
});

test("sizes of numbers are told as before", () => {
  const wide = fc.oneof(fc.maxSafeInteger(), int(32), int(8));
  fc.assert(
    fc.property(wide, (value) => {
      expect(Guarded.sizeOfVarLong(value)).toBe(Original.sizeOfVarLong(value));
    }),
    { numRuns: 5_000 },
  );
});

test.each([1.5, -0.25])("%d, which is no whole number, is refused as before", (value) => {
  for (const From of [Original, Guarded]) {
    expect(() => encoderOf(From, [["writeVarLong", value]])).toThrow(RangeError);
    expect(() => From.sizeOfVarLong(value)).toThrow(RangeError);
  }
});

test("an encoder that was made takes no memory until it writes, and then not another's", () => {
  const encoders = Array.from({ length: 500 }, () => new Guarded());
  expect((encoders[0] as unknown as { buf: Buffer }).buf.length).toBe(0);
  for (const [index, encoder] of encoders.entries())
    for (let time = 0; time < 40; time += 1)
      (encoder["writeInt32"] as (value: number) => unknown)(index);
  for (const [index, { buffer }] of encoders.entries())
    for (let at = 0; at < buffer.length; at += 4) expect(buffer.readInt32BE(at)).toBe(index);
});
