import { createRequire } from "node:module";
import fc from "fast-check";
import { afterEach, expect, test, vi } from "vitest";
import {
  encodedInOnePass,
  type ProduceRequest,
} from "../../../src/adapters/kafka/produce-encoder.ts";

const load = createRequire(import.meta.url);
afterEach(() => vi.restoreAllMocks());

const NOW_MS = 1_767_225_600_123;
interface Request {
  readonly apiVersion: number;
  readonly encode: () => Promise<{ readonly buffer: Buffer }>;
}
const requestOfKafkajs = load("kafkajs/src/protocol/requests/produce/v7/request.js") as (
  asked: object,
) => Request;

const bytes = (maxLength: number) =>
  fc
    .oneof(
      fc.uint8Array({ maxLength }),
      fc.constantFrom(0, 1, 63, 64, 8_191, 8_192).map((length) => new Uint8Array(length).fill(7)),
    )
    .map((array) => Buffer.from(array));
const message = fc.record({
  key: fc.string({ unit: "grapheme", maxLength: 80 }),
  value: bytes(300),
});
const request = fc.record({
  acks: fc.constantFrom(-1, 1),
  timeout: fc.nat(60_000),
  topicData: fc.array(
    fc.record({
      topic: fc.string({ unit: "grapheme", maxLength: 40 }),
      partitions: fc.array(
        fc.record({
          partition: fc.nat(100_000),
          messages: fc.array(message, { minLength: 1, maxLength: 150 }),
        }),
        { maxLength: 4 },
      ),
    }),
    { maxLength: 3 },
  ),
});
const PLAIN = { compression: 0, producerId: -1, transactionalId: null };

test("what it writes is what kafkajs writes, byte for byte", async () => {
  vi.spyOn(Date, "now").mockReturnValue(NOW_MS);
  await fc.assert(
    fc.asyncProperty(request, async (drawn) => {
      const dated = drawn.topicData.map(({ topic, partitions }) => ({
        topic,
        // By itself kafkajs dates them with the time of now.
        partitions: partitions.map(({ partition, messages }) => ({
          partition,
          messages: messages.map((one) => ({ ...one, timestamp: NOW_MS })),
          firstSequence: 0,
        })),
      }));
      const theirs = requestOfKafkajs({ ...PLAIN, ...drawn, topicData: dated });
      const ours = encodedInOnePass(theirs, { ...PLAIN, ...drawn });
      expect(ours.encode).not.toBe(theirs.encode);
      expect((await ours.encode()).buffer.equals((await theirs.encode()).buffer)).toBe(true);
    }),
    { numRuns: 200 },
  );
});

test.each<[string, number, Partial<ProduceRequest>, object, boolean]>([
  ["ours", 7, {}, {}, true],
  ["the first version with record batches", 3, { transactionalId: null }, {}, true],
  ["a version before record batches", 2, {}, {}, false],
  ["a version with tagged fields", 9, {}, {}, false],
  ["compressed", 7, { compression: 1 }, {}, false],
  ["in a transaction", 7, { transactionalId: "t" }, {}, false],
  ["idempotent", 7, { producerId: 12 }, {}, false],
  ["with headers", 7, {}, { headers: { a: "b" } }, false],
  ["with a time of its own", 7, {}, { timestamp: "12" }, false],
  ["without a key", 7, {}, { key: null }, false],
  ["with text", 7, {}, { value: "text" }, false],
])("what it cannot write is left to kafkajs: %s", (_name, version, asked, different, expected) => {
  const messages = [{ key: "k", value: Buffer.of(1), ...different }];
  const topicData = [{ topic: "t", partitions: [{ partition: 0, messages }] }];
  const whole = { acks: -1, timeout: 1, ...PLAIN, topicData, ...asked } as ProduceRequest;
  const request = { apiVersion: version };
  expect(encodedInOnePass(request, whole) !== request).toBe(expected);
});
