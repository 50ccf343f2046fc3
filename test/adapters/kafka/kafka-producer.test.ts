import type { Kafka, ProducerBatch, RecordMetadata } from "kafkajs";
import { expect, test } from "vitest";
import { markHandedOver } from "../../../src/adapters/kafka/produce/handed-over.ts";
import type { KafkaLogOptions } from "../../../src/adapters/kafka/kafka-options.ts";
import { KafkaProducer } from "../../../src/adapters/kafka/produce/kafka-producer.ts";
import { WireWatch } from "../../../src/adapters/kafka/wire-watch.ts";
import type { LogError, NewRecord } from "../../../src/domain/log.ts";

type Send = (batch: ProducerBatch) => Promise<RecordMetadata[]>;

/** Makes a producer whose client answers each send as given. */
function aProducer(...sends: Send[]) {
  return aProducerWith({}, ...sends);
}

function aProducerWith(
  { isConnected = true, ...options }: Partial<KafkaLogOptions> & { readonly isConnected?: boolean },
  ...sends: Send[]
) {
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
  if (isConnected) wire.connected();
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

/** Acknowledges the records of these partitions, and says nothing about others. */
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

/** Takes the records of these partitions, beside one that has another leader by now. */
function moved(partition: number, baseOffsets: Readonly<Record<number, number>>): Send {
  const another = { topicName: "p.events", partition, errorCode: 6, baseOffset: "-1" };
  return async (batch) => [...(await taken(baseOffsets)(batch)), another];
}

test("regression: while leaders move one after the other, only what was not taken is sent again: what their neighbours had taken was written twice", async () => {
  const { producer, partitionsAsked } = aProducer(
    moved(1, { 0: 10 }),
    moved(1, { 2: 30 }),
    taken({ 1: 20 }),
  );
  await using _ = producer;
  expect(await producer.append(RECORDS)).toMatchObject([
    { offset: 10 },
    { offset: 20 },
    { offset: 11 },
    { offset: 30 },
  ]);
  expect(partitionsAsked()).toEqual([[0, 1, 0, 2], [1, 2], [1]]);
});

test("what no leader takes is not sent again without end", async () => {
  const { producer, partitionsAsked } = aProducer(moved(1, { 0: 10, 2: 30 }), moved(1, {}));
  await using _ = producer;
  await expect(producer.append(RECORDS)).rejects.toMatchObject({
    appended: [{ offset: 10 }, null, { offset: 11 }, { offset: 30 }],
  });
  expect(partitionsAsked()).toEqual([[0, 1, 0, 2], [1]]);
});

/** Marks the whole batch as handed over first, as if it went out in a request whose answer was lost. */
function handedOver(send: Send): Send {
  return (batch) => {
    const messages = (batch.topicMessages ?? []).flatMap((topic) => topic.messages);
    const partitions = [0, 1, 2].map((number) => ({
      messages: messages.filter(({ partition }) => partition === number),
    }));
    markHandedOver({ topicData: [{ partitions }] });
    return send(batch);
  };
}
const gone: Send = () => Promise.reject(new Error("gone"));

test.each([
  [true, "log_outcome_unknown"],
  [false, "log_unavailable"],
])(
  "of a request that got no answer: with a connection open (%s), its records are %s",
  async (isConnected, code) => {
    const { producer } = aProducerWith({ isConnected }, handedOver(gone));
    await using _ = producer;
    const records = RECORDS.filter(({ partition }) => partition === 0);
    await expect(producer.append(records)).rejects.toMatchObject({ code, appended: [null, null] });
  },
);

test("a producer that ends waits for what is in flight", async () => {
  let answer = (): void => undefined;
  const asked = new Promise<void>((resolve) => (answer = resolve));
  const { producer } = aProducer(async (batch) => {
    await asked;
    return taken({ 0: 10 })(batch);
  });
  const append = producer.append(RECORDS.slice(0, 1));
  const ended = producer[Symbol.asyncDispose]();
  answer();
  expect(await append).toEqual([{ partition: 0, offset: 10 }]);
  await ended;
});

test("a record of the largest size is taken, also after a larger one was refused", async () => {
  const { producer } = aProducer(taken({ 0: 10 }));
  await using _ = producer;
  const sized = (bytes: number) => [{ ...RECORDS[0]!, value: Buffer.alloc(bytes) }];
  await expect(producer.append(sized(1_001))).rejects.toMatchObject({
    code: "log_record_too_large",
  });
  expect(await producer.append(sized(1_000))).toEqual([{ partition: 0, offset: 10 }]);
});

test.each<[string, Send, Pick<LogError, "code" | "message">]>([
  [
    "left out again",
    taken({}),
    {
      code: "log_unavailable",
      message: "p.events/1 has no leader that can be reached; not written",
    },
  ],
  [
    "left out, and the client gave up",
    gone,
    { code: "log_unavailable", message: "the log cannot be reached; not written" },
  ],
  [
    "sent, and the client gave up",
    handedOver(gone),
    { code: "log_outcome_unknown", message: "the log did not confirm the write" },
  ],
  [
    "sent, and left out when it was sent again",
    handedOver(taken({})),
    { code: "log_outcome_unknown", message: "the log did not confirm the write" },
  ],
])(
  "regression: a partition nobody answers for (%s) fails its own records alone: the whole call failed, for minutes",
  async (_name, second, error) => {
    const { producer } = aProducer(taken({ 0: 10, 2: 30 }), second);
    await using _ = producer;
    await expect(producer.append(RECORDS)).rejects.toMatchObject({
      ...error,
      appended: [
        { partition: 0, offset: 10 },
        null,
        { partition: 0, offset: 11 },
        { partition: 2, offset: 30 },
      ],
    });
  },
);

test("regression: what is behind records that their partition did not take is not sent there: the end of a large append was written without its beginning", async () => {
  const refuses: Send = async () => [
    { topicName: "p.events", partition: 0, errorCode: 19 },
    { topicName: "p.events", partition: 1, errorCode: 0, baseOffset: "20" },
  ];
  const { producer, partitionsAsked } = aProducerWith(
    { maxRecordBytes: 300_000 },
    refuses,
    taken({ 1: 21 }),
  );
  await using _ = producer;
  const value = Buffer.alloc(250_000);
  const records = [0, 1, 0, 1].map((partition): NewRecord => {
    return { topic: "events", key: "k", partition, value };
  });
  await expect(producer.append(records)).rejects.toMatchObject({
    code: "log_unavailable",
    appended: [null, { partition: 1, offset: 20 }, null, { partition: 1, offset: 21 }],
  });
  expect(partitionsAsked()).toEqual([[0, 1], [1]]);
});

test("regression: of a call of which one record is not written and another may be, that is told: it was called not written", async () => {
  const answers: Send = async (batch) => {
    await handedOver(taken({}))({
      ...batch,
      topicMessages: (batch.topicMessages ?? []).map(({ topic, messages }) => ({
        topic,
        messages: messages.filter(({ partition }) => partition === 1),
      })),
    });
    return taken({ 2: 30 })(batch);
  };
  const { producer } = aProducer(answers, taken({}));
  await using _ = producer;
  await expect(producer.append(RECORDS)).rejects.toMatchObject({
    code: "log_outcome_unknown",
    appended: [null, null, null, { partition: 2, offset: 30 }],
  });
});

test.each([
  ["REQUEST_TIMED_OUT", 7, "log_outcome_unknown"],
  ["NOT_ENOUGH_REPLICAS_AFTER_APPEND", 20, "log_outcome_unknown"],
  ["MESSAGE_TOO_LARGE", 10, "log_unavailable"],
  ["NOT_ENOUGH_REPLICAS", 19, "log_unavailable"],
  ["TOPIC_AUTHORIZATION_FAILED", 29, "log_unavailable"],
])(
  "records that their partition answers with %s are told as what they are: perhaps written, or not written",
  async (type, errorCode, code) => {
    const refuses: Send = async (batch) => [
      ...(await taken({ 0: 10, 2: 30 })(batch)),
      { topicName: "p.events", partition: 1, errorCode },
    ];
    const { producer, partitionsAsked } = aProducer(refuses);
    await using _ = producer;
    await expect(producer.append(RECORDS)).rejects.toMatchObject({
      code,
      cause: { type },
      appended: [{ offset: 10 }, null, { offset: 11 }, { offset: 30 }],
    });
    expect(partitionsAsked()).toHaveLength(1);
  },
);

test.each([
  ["MESSAGE_TOO_LARGE", 10, "raise its max.message.bytes"],
  ["RECORD_LIST_TOO_LARGE", 18, "raise its segment.bytes"],
  ["NOT_ENOUGH_REPLICAS", 19, "bring back brokers, or lower its min.insync.replicas"],
  ["TOPIC_AUTHORIZATION_FAILED", 29, "this user needs the right Write for it"],
  ["INVALID_TIMESTAMP", 32, "keep the clocks of this machine and the brokers in step"],
])(
  "regression: a partition that answers with %s is told of with what to do: a clock an hour ahead had all webhooks refused, and the log only said that a timestamp was out of range",
  async (type, errorCode, mend) => {
    const refuses: Send = async () => [{ topicName: "p.events", partition: 0, errorCode }];
    const { producer } = aProducer(refuses);
    await using _ = producer;
    await expect(producer.append(RECORDS.slice(0, 1))).rejects.toMatchObject({
      message: expect.stringContaining(`p.events/0 did not take the records (${mend}`) as string,
      cause: { type },
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
