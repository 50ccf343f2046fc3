import type { Kafka, ProducerBatch, RecordMetadata } from "kafkajs";
import { expect, test } from "vitest";
import { WireWatch } from "../../../src/adapters/kafka/kafka-client.ts";
import type { KafkaLogOptions } from "../../../src/adapters/kafka/kafka-options.ts";
import { KafkaProducer } from "../../../src/adapters/kafka/kafka-producer.ts";
import type { LogError, NewRecord } from "../../../src/domain/log.ts";

type Send = (batch: ProducerBatch) => Promise<RecordMetadata[]>;

/** A producer whose client is told what to answer, send by send. */
function aProducer(...sends: Send[]) {
  return aProducerWith({}, ...sends);
}

function aProducerWith(options: Partial<KafkaLogOptions>, ...sends: Send[]) {
  const asked: ProducerBatch[] = [];
  const client = {
    sendBatch: (batch: ProducerBatch) => {
      const send = sends[asked.length];
      asked.push(batch);
      return send === undefined ? Promise.reject(new Error("sent once more")) : send(batch);
    },
    disconnect: async () => {},
  };
  const wire = new WireWatch();
  wire.connected();
  const producer = new KafkaProducer(
    { producer: () => client } as unknown as Kafka,
    wire,
    { topicPrefix: "p.", maxRecordBytes: 1_000, ...options } as KafkaLogOptions,
    { partitions: () => 3, largestRecordBytes: () => Promise.resolve(0) },
    () => performance.now(),
  );
  return { producer, partitionsAsked: () => asked.map(partitionsOf) };
}

function partitionsOf({ topicMessages = [] }: ProducerBatch): unknown[] {
  return topicMessages.flatMap(({ messages }) => messages.map(({ partition }) => partition));
}

/** Takes what is for these partitions, and says nothing of the others. */
function taken(baseOffsets: Readonly<Record<number, number>>): Send {
  return async () =>
    Object.entries(baseOffsets).map(([partition, offset]) => ({
      topicName: "p.events",
      partition: Number(partition),
      errorCode: 0,
      baseOffset: String(offset),
    }));
}

const RECORDS: readonly NewRecord[] = [0, 1, 0, 2].map((partition) => ({
  topic: "events",
  key: "k",
  partition,
  value: Buffer.from("v"),
}));

test("regression: what the client left out of its requests is sent again, and nothing else: a partition whose leader moved to a broker that had answered", async () => {
  const { producer, partitionsAsked } = aProducer(taken({ 0: 10, 2: 30 }), taken({ 1: 20 }));
  await using _ = producer;
  expect(await producer.append(RECORDS)).toEqual([
    { partition: 0, offset: 10 },
    { partition: 1, offset: 20 },
    { partition: 0, offset: 11 },
    { partition: 2, offset: 30 },
  ]);
  expect(partitionsAsked()).toEqual([[0, 1, 0, 2], [1]]);
});

test.each<[string, Send, string]>([
  ["left out again", taken({}), "no broker answered for its partition"],
  ["failed by itself", () => Promise.reject(new Error("gone")), "gone"],
])(
  "regression: a partition nobody answers for (%s) fails its own records alone: the whole call failed, for minutes",
  async (_name, second, cause) => {
    const { producer } = aProducer(taken({ 0: 10, 2: 30 }), second);
    await using _ = producer;
    const error = await producer.append(RECORDS).catch((thrown: unknown) => thrown as LogError);
    expect(error).toMatchObject({
      code: "log_outcome_unknown",
      cause: { message: cause },
      appended: [
        { partition: 0, offset: 10 },
        null,
        { partition: 0, offset: 11 },
        { partition: 2, offset: 30 },
      ],
    });
  },
);

test("what one leader took and the next one refused, as the client sent it again, is taken", async () => {
  const refused = { topicName: "p.events", partition: 0, errorCode: 19 };
  const all = taken({ 0: 10, 1: 20, 2: 30 });
  const { producer } = aProducer(async (batch) => [...(await all(batch)), refused]);
  await using _ = producer;
  expect(await producer.append(RECORDS)).toMatchObject([{ offset: 10 }, {}, { offset: 11 }, {}]);
});

test("regression: what a large append has written is told although the rest failed: its events were answered 503, and sent again", async () => {
  let answer: (answers: RecordMetadata[]) => void = () => {};
  const slow = new Promise<RecordMetadata[]>((resolve) => {
    answer = resolve;
  });
  const { producer } = aProducerWith({ appendTimeoutMs: 100 }, taken({ 0: 10 }), () => slow);
  await using _ = producer;
  const record: NewRecord = { ...RECORDS[0]!, value: Buffer.alloc(1_000) };
  const records = Array.from({ length: 600 }, () => record);
  const error = await producer.append(records).catch((thrown: unknown) => thrown as LogError);
  answer([]);
  expect(error).toMatchObject({ code: "log_outcome_unknown" });
  const appended = (error as LogError).appended ?? [];
  const written = appended.filter((position) => position !== null);
  expect(appended).toHaveLength(records.length);
  expect(written.length).toBeGreaterThan(400);
  expect(appended.slice(0, written.length)).toEqual(
    written.map((_position, index) => ({ partition: 0, offset: 10 + index })),
  );
});
