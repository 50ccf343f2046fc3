import { createRequire } from "node:module";
import fc from "fast-check";
import type { KafkaMessage } from "kafkajs";
import { expect, test } from "vitest";
import {
  damagedFrom,
  markDamagedBatches,
} from "../../../src/adapters/kafka/guards/damaged-batches.ts";

const load = createRequire(import.meta.url);
interface Encoder {
  readonly buffer: Buffer;
  writeInt16: (value: number) => Encoder;
  writeInt32: (value: number) => Encoder;
  writeInt64: (value: unknown) => Encoder;
  writeString: (value: string) => Encoder;
  writeBytes: (value: Buffer) => Encoder;
  writeEncoder: (value: Encoder) => Encoder;
}
const EncoderClass = load("kafkajs/src/protocol/encoder.js") as new () => Encoder;
const Long = load("kafkajs/src/utils/long.js") as { fromNumber: (value: number) => unknown };
const encodeBatch = load("kafkajs/src/protocol/recordBatch/v0/index.js").RecordBatch as (
  of: object,
) => Promise<Encoder>;
const encodeRecord = load("kafkajs/src/protocol/recordBatch/record/v0/index.js") as (
  of: object,
) => Encoder;
interface Decoded {
  readonly responses: readonly {
    readonly partitions: readonly { readonly messages: readonly KafkaMessage[] }[];
  }[];
}
const decode = (response: Buffer, version: number): Promise<Decoded> =>
  load(`kafkajs/src/protocol/requests/fetch/v${version}/response.js`).decode(response);

const VERSIONS = [4, 5, 6, 7, 8, 9, 10, 11];
const MAGIC_AT = 16;

interface Batch {
  readonly base: number;
  readonly count: number;
  readonly gzip: boolean;
}
async function batchOf({ base, count, gzip }: Batch): Promise<Buffer> {
  const records = Array.from({ length: count }, (_, offsetDelta) =>
    encodeRecord({
      offsetDelta,
      timestampDelta: 0,
      key: `k${base}`,
      value: `${base + offsetDelta}`,
    }),
  );
  const batch = await encodeBatch({
    compression: gzip ? 1 : 0,
    firstOffset: Long.fromNumber(base),
    lastOffsetDelta: count - 1,
    records,
  });
  return batch.buffer;
}

/** Two partitions of two topics each, all with the same batches. */
function responseOf(batches: Buffer, highWatermark: number, version: number): Buffer {
  const partition = (number: number): Encoder => {
    const encoder = new EncoderClass().writeInt32(number).writeInt16(0);
    encoder.writeInt64(Long.fromNumber(highWatermark)).writeInt64(Long.fromNumber(highWatermark));
    if (version >= 5) encoder.writeInt64(Long.fromNumber(0));
    // Kafka answers -1 where there is none; transactions of others may have been aborted as well.
    if (number === 0) encoder.writeInt32(-1);
    else encoder.writeInt32(1).writeInt64(Long.fromNumber(9)).writeInt64(Long.fromNumber(0));
    if (version >= 11) encoder.writeInt32(-1);
    return encoder.writeBytes(batches);
  };
  const encoder = new EncoderClass().writeInt32(0);
  if (version >= 7) encoder.writeInt16(0).writeInt32(0);
  encoder.writeInt32(2);
  for (const name of ["relay.events", "relay.ä"]) {
    encoder.writeString(name).writeInt32(2);
    encoder.writeEncoder(partition(0)).writeEncoder(partition(1));
  }
  return encoder.buffer;
}

function seen(decoded: Decoded): string[][] {
  return decoded.responses.flatMap(({ partitions }) =>
    partitions.map(({ messages }) =>
      messages.map((message) => {
        const from = damagedFrom(message);
        return from === null ? String(message.value) : `${from}-${message.offset} damaged`;
      }),
    ),
  );
}

const drawn = fc.record({
  version: fc.constantFrom(...VERSIONS),
  counts: fc.array(fc.integer({ min: 1, max: 100 }), { minLength: 1, maxLength: 4 }),
  first: fc.constantFrom(0, 7, 2 ** 40),
  gzip: fc.boolean(),
  damaged: fc.nat(),
  at: fc.nat(),
  bit: fc.nat(7),
  cut: fc.nat(),
});

test("a bit that changed anywhere in what a checksum covers, or in itself, leaves out the records of its batch and no others", async () => {
  await fc.assert(
    fc.asyncProperty(drawn, async ({ version, counts, first, gzip, damaged, at, bit }) => {
      const batches: Batch[] = [];
      let base = first;
      for (const count of counts) {
        batches.push({ base, count, gzip });
        base += count;
      }
      const encoded = await Promise.all(batches.map(batchOf));
      const hit = damaged % encoded.length;
      const bytes = encoded[hit]!;
      const position = MAGIC_AT + 1 + (at % (bytes.byteLength - MAGIC_AT - 1));
      bytes[position]! ^= 1 << bit;
      const response = responseOf(Buffer.concat(encoded), base, version);
      markDamagedBatches(response, version);
      const found = seen(await decode(response, version));
      expect(found).toHaveLength(4);
      for (const messages of found) {
        const mark = messages.filter((message) => message.endsWith("damaged"));
        expect(mark).toHaveLength(1);
        const [from, to] = mark[0]!.replace(" damaged", "").split("-").map(Number);
        const { base, count } = batches[hit]!;
        expect(from).toBe(base);
        const next = batches[hit + 1]?.base ?? base + count;
        expect(to).toBeGreaterThanOrEqual(base);
        expect(to).toBeLessThan(next);
        const whole = batches
          .filter((_, index) => index !== hit)
          .flatMap(({ base, count }) => Array.from({ length: count }, (_, index) => base + index));
        expect(messages.filter((message) => !message.endsWith("damaged"))).toEqual(
          whole.map(String),
        );
      }
    }),
    { numRuns: 400 },
  );
});

test("what is as it was written is left as it is, the part of a batch at its end as well", async () => {
  await fc.assert(
    fc.asyncProperty(drawn, async ({ version, counts, first, gzip, cut }) => {
      let base = first;
      const encoded: Buffer[] = [];
      for (const count of counts) {
        encoded.push(await batchOf({ base, count, gzip }));
        base += count;
      }
      const whole = Buffer.concat(encoded);
      const response = responseOf(whole.subarray(0, cut % (whole.byteLength + 1)), base, version);
      const before = Buffer.from(response);
      markDamagedBatches(response, version);
      expect(response.equals(before)).toBe(true);
    }),
    { numRuns: 200 },
  );
});

test("the number of a record's offsets comes from the batch's head, and from its count of records where that is what changed", async () => {
  const damage = async (change: (batch: Buffer) => void): Promise<string> => {
    const batch = await batchOf({ base: 10, count: 5, gzip: false });
    change(batch);
    const response = responseOf(batch, 1_000, 11);
    markDamagedBatches(response, 11);
    return seen(await decode(response, 11))[0]!.join();
  };
  const LAST_DELTA_AT = 23;
  expect(await damage((batch) => void (batch[70]! ^= 1))).toBe("10-14 damaged");
  expect(await damage((batch) => batch.writeInt32BE(-1, LAST_DELTA_AT))).toBe("10-14 damaged");
  expect(await damage((batch) => batch.writeInt32BE(990, LAST_DELTA_AT))).toBe("10-14 damaged");
  expect(await damage((batch) => batch.fill(0xff, LAST_DELTA_AT))).toBe("10-10 damaged");
  expect(await damage((batch) => void (batch[MAGIC_AT] = 3))).toBe("10-14 damaged");
});

test("records of before Kafka 0.11, which have no such checksum, are not looked at", () => {
  const nothing = Buffer.alloc(0);
  expect(() => markDamagedBatches(nothing, 3)).not.toThrow();
});
