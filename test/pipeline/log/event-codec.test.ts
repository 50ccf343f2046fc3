import fc from "fast-check";
import { Packr, Unpackr } from "msgpackr";
import { describe, expect, it } from "vitest";
import { PROVIDERS } from "../../../src/domain/enums.ts";
import type { EventRecord } from "../../../src/domain/event.ts";
import { ByteSlab } from "../../../src/domain/byte-slab.ts";
import { decodeEvent, encodeEvent } from "../../../src/pipeline/log/event-codec.ts";
import { MessagePackWriter } from "../../../src/pipeline/log/message-pack-writer.ts";

const text = fc.oneof(
  fc.string({ unit: "grapheme", maxLength: 80 }),
  fc.string({ unit: "grapheme-ascii", maxLength: 400 }),
  fc.nat(70_000).map((length) => "é".repeat(length)),
);
const eventArbitrary: fc.Arbitrary<EventRecord> = fc.record({
  id: text,
  orgId: text,
  endpointId: text,
  provider: fc.constantFrom(...PROVIDERS),
  receivedAtMs: fc.nat(2 ** 45),
  method: text,
  path: text,
  query: text,
  headers: fc.array(fc.tuple(text, text), { maxLength: 40 }),
  contentType: fc.option(text),
  sourceIp: text,
  signatureValid: fc.boolean(),
  verificationError: fc.option(text),
  reason: text,
  bodyStored: fc.boolean(),
  payloadSizeBytes: fc.nat(2 ** 40),
  body: fc.uint8Array({ maxLength: 3_000 }).map((bytes) => Buffer.from(bytes)),
});

describe("an event in the log", () => {
  it("is read as it was written, whether or not it shares a block of memory", () => {
    const slab = new ByteSlab();
    fc.assert(
      fc.property(fc.array(eventArbitrary, { maxLength: 6 }), (events) => {
        const encoded = events.map((event) => encodeEvent(event, slab));
        for (const [index, event] of events.entries()) {
          expect(encoded[index]!.equals(encodeEvent(event))).toBe(true);
          const decoded = decodeEvent(encoded[index]!);
          expect({ ...decoded, body: Buffer.from(decoded.body) }).toEqual(event);
        }
      }),
      { numRuns: 60 },
    );
  });

  it("has numbers, flags and long arrays as MessagePack has them", () => {
    const writer = new MessagePackWriter(Buffer.alloc(1_000), 0);
    writer.array(20);
    for (const count of [0, 127, 128, 65_536, 2 ** 32 - 1, 2 ** 32, 2 ** 53 - 1])
      writer.count(count);
    for (let index = 0; index < 13; index += 1) writer.flag(index % 2 === 0);
    const read = new Unpackr({ useRecords: false }).unpack(writer.buffer.subarray(0, writer.at));
    expect(read.slice(0, 7)).toEqual([0, 127, 128, 65_536, 2 ** 32 - 1, 2 ** 32, 2 ** 53 - 1]);
    expect(read.slice(7)).toEqual(Array.from({ length: 13 }, (_, index) => index % 2 === 0));
  });
});

describe("a record that cannot be read", () => {
  it("is not quoted by the error, which gets into the log", () => {
    const head = Buffer.concat([new Packr().pack(["authorization of a webhook"]), Buffer.of(1)]);
    const record = Buffer.concat([Buffer.of(1, 0, 0, 0, head.length), head]);
    expect(() => decodeEvent(record)).toThrow(/^log record with a damaged head$/);
  });
});

describe("ByteSlab", () => {
  it("does not hand out again what was used of a block before a large piece came between", () => {
    const slab = new ByteSlab({ blockBytes: 1_000 });
    const pieces = [200, 200, 200, 200, 300, 200].map((size, index) => {
      const { block, at } = slab.reserve(size);
      return slab.keep(block, at, at + size).fill(index);
    });
    for (const [index, piece] of pieces.entries())
      expect(piece.every((byte) => byte === index)).toBe(true);
  });

  it("never hands out the same bytes twice, and gives a large piece a block of its own", () => {
    const slab = new ByteSlab();
    const pieces = Array.from({ length: 300 }, (_, index) => {
      const size = index % 50 === 49 ? 100_000 : 1_000 + index;
      const { block, at } = slab.reserve(size);
      return slab.keep(block, at, at + size - 10).fill(index % 256);
    });
    for (const [index, piece] of pieces.entries())
      expect(piece.every((byte) => byte === index % 256)).toBe(true);
  });

  /** Makes a slab that counts the blocks it makes. */
  function countedSlab() {
    const counted = { made: 0 };
    const slab = new ByteSlab({
      blockBytes: 1_000,
      allocate: (sizeBytes) => {
        counted.made += 1;
        return Buffer.alloc(sizeBytes);
      },
    });
    const take = (mark: number, sizeBytes: number): Buffer => {
      const { block, at } = slab.reserve(sizeBytes);
      return slab.keep(block, at, at + sizeBytes).fill(mark);
    };
    const burst = (mark: number, count: number, sizeBytes: number): void => {
      const pieces = Array.from({ length: count }, () => take(mark, sizeBytes));
      for (const piece of pieces) slab.giveBack(piece);
    };
    return { slab, counted, take, burst };
  }

  it("uses a block again once all of its pieces were given back, and none before", () => {
    const { slab, counted, take, burst } = countedSlab();
    const kept = take(1, 100);
    burst(2, 9, 100);
    for (let round = 0; round < 100; round += 1) burst(3, 10, 100);
    expect(kept.every((byte) => byte === 1)).toBe(true);
    // The one with the piece that was kept, and two by turns.
    expect(counted.made).toBe(3);
    slab.giveBack(kept);
    // Larger than a quarter: it has a block to itself.
    slab.giveBack(take(4, 500));
    for (let round = 0; round < 100; round += 1) burst(5, 10, 100);
    expect(counted.made).toBe(4);
  });

  it("keeps no more blocks than a few for later", () => {
    const { counted, burst } = countedSlab();
    burst(1, 40, 250);
    expect(counted.made).toBe(10);
    burst(2, 40, 250);
    expect(counted.made).toBe(11);
  });
});
