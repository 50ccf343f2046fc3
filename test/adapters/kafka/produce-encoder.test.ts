import { createRequire } from "node:module";
import fc from "fast-check";
import { afterEach, expect, test, vi } from "vitest";
import { guardBroker } from "../../../src/adapters/kafka/guards/broker-guard.ts";
import { guardEncoder } from "../../../src/adapters/kafka/guards/encoder-guard.ts";
import {
  encodedInOnePass,
  ProduceBlocks,
  type ProduceRequest,
} from "../../../src/adapters/kafka/produce/produce-encoder.ts";

const load = createRequire(import.meta.url);
afterEach(() => vi.restoreAllMocks());

const NOW_MS = 1_767_225_600_123;
interface Request {
  readonly apiVersion: number;
  readonly encode: () => Promise<{ readonly buffer: Buffer }>;
}
guardEncoder();
const wholeRequest = load("kafkajs/src/protocol/request.js") as (options: {
  readonly correlationId: number;
  readonly clientId: string;
  readonly request: object;
}) => Promise<{ readonly buffer: Buffer }>;
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
        // Without a timestamp kafkajs would use the current time.
        partitions: partitions.map(({ partition, messages }) => ({
          partition,
          messages: messages.map((one) => ({ ...one, timestamp: NOW_MS })),
          firstSequence: 0,
        })),
      }));
      const theirs = requestOfKafkajs({ ...PLAIN, ...drawn, topicData: dated });
      const ours = encodedInOnePass(theirs, { ...PLAIN, ...drawn }, Buffer.alloc);
      expect(ours.encode).not.toBe(theirs.encode);
      expect((await ours.encode()).buffer.equals((await theirs.encode()).buffer)).toBe(true);
    }),
    { numRuns: 200 },
  );
});

test.each([0, 20, 498, 499, 3_000])(
  "the head of a request, with a client's name of %d bytes, goes in front of the body, or before a copy of it where there is no room",
  async (nameBytes) => {
    const message = { key: "k", value: Buffer.alloc(1_000, 7) };
    const topicData = [{ topic: "t", partitions: [{ partition: 3, messages: [message] }] }];
    const dated = [{ ...message, timestamp: NOW_MS }];
    const theirs = requestOfKafkajs({
      ...PLAIN,
      acks: -1,
      timeout: 1,
      topicData: [
        { topic: "t", partitions: [{ partition: 3, messages: dated, firstSequence: 0 }] },
      ],
    });
    vi.spyOn(Date, "now").mockReturnValue(NOW_MS);
    let block = Buffer.alloc(0);
    const ours = encodedInOnePass(
      theirs,
      { ...PLAIN, acks: -1, timeout: 1, topicData },
      (sizeBytes) => (block = Buffer.alloc(sizeBytes)),
    );
    const head = { correlationId: 12, clientId: "c".repeat(nameBytes) };
    const written = (await wholeRequest({ ...head, request: ours })).buffer;
    expect(written.equals((await wholeRequest({ ...head, request: theirs })).buffer)).toBe(true);
    expect(written.buffer === block.buffer).toBe(nameBytes < 499);
  },
);

test("memory of a request serves another one when the broker has answered it, and never when it has not", async () => {
  guardBroker();
  const Broker = load("kafkajs/src/broker/index.js");
  const sent: { readonly block: ArrayBufferLike; readonly end: (failure: Error | null) => void }[] =
    [];
  const logger = { debug: () => {}, namespace: () => logger };
  const send = async ({ request }: { readonly request: Request }) => {
    const { buffer } = await request.encode();
    await new Promise<void>((resolve, reject) =>
      sent.push({
        block: buffer.buffer,
        end: (failure) => (failure === null ? resolve() : reject(failure)),
      }),
    );
    return { topics: [] };
  };
  const broker = new Broker({ logger, connectionPool: { send } });
  broker.lookupRequest = (_key: number, versions: { protocol: (at: object) => unknown }) =>
    versions.protocol({ version: 7 });
  const messages = [{ key: "k", value: Buffer.alloc(100) }];
  const produce = async (): Promise<[answer: Promise<unknown>, (typeof sent)[number]]> => {
    const topicData = [{ topic: "t", partitions: [{ partition: 0, messages }] }];
    const answer = broker.produce({ ...PLAIN, topicData }).catch((error: Error) => error);
    await new Promise((resolve) => setImmediate(resolve));
    return [answer, sent.at(-1)!];
  };
  const [firstAnswer, first] = await produce();
  const [secondAnswer, second] = await produce();
  expect(second.block).not.toBe(first.block);
  first.end(new Error("cut"));
  second.end(null);
  expect(await firstAnswer).toMatchObject({ message: "cut" });
  await secondAnswer;
  const [, third] = await produce();
  const [, fourth] = await produce();
  expect(third.block).toBe(second.block);
  expect([first.block, second.block]).not.toContain(fourth.block);
});

test("no more than some megabytes are kept for later requests", () => {
  const blocks = new ProduceBlocks();
  const large = blocks.take(2 ** 21);
  blocks.giveBack(large);
  // Not `not.toBe`, which compares what is in them, too, for half a minute.
  expect(blocks.take(2 ** 21) === large).toBe(false);
  const taken = Array.from({ length: 12 }, () => blocks.take(1));
  for (const block of taken) blocks.giveBack(block);
  const again = new Set(Array.from({ length: 12 }, () => blocks.take(1)));
  expect(taken.filter((block) => again.has(block))).toHaveLength(8);
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
  expect(encodedInOnePass(request, whole, Buffer.alloc) !== request).toBe(expected);
});
