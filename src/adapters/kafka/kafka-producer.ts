import type { Kafka, Message, Producer } from "kafkajs";
import { LogError, type NewRecord, type Position, type Topic } from "../../domain/log.ts";
import { partitionOf } from "../../pipeline/log/partition.ts";
import { Accumulator, chunk, type Appended, type PlacedRecord } from "./accumulator.ts";
import type { WireWatch } from "./kafka-client.ts";
import {
  DEFAULT_APPEND_TIMEOUT_MS,
  DEFAULT_MAX_QUEUED_BYTES,
  topicName,
  type KafkaLogOptions,
} from "./kafka-options.ts";
import { refusalOf, type PartitionAnswer } from "./produce-answers.ts";
import { settledWithin } from "./settled-within.ts";

const ALL_REPLICAS = -1;
const MAX_BATCH_BYTES = 512 * 1024;
const MAX_BATCH_RECORDS = 500;
const DRAIN_TIMEOUT_MS = 5_000;

type NamedAnswer = PartitionAnswer & { readonly topicName: string };

/** `append` of the log port on kafkajs: batches, `acks=all`, no idempotence (it loses records under concurrent sends). */
export class KafkaProducer implements AsyncDisposable {
  readonly #options: KafkaLogOptions;
  readonly #producer: Producer;
  readonly #wire: WireWatch;
  readonly #partitions: () => number;
  readonly #accumulator: Accumulator;
  #closed = false;

  constructor(
    kafka: Kafka,
    wire: WireWatch,
    options: KafkaLogOptions,
    partitions: () => number,
    monotonic: () => number,
  ) {
    this.#options = options;
    this.#wire = wire;
    this.#partitions = partitions;
    this.#producer = kafka.producer({
      allowAutoTopicCreation: false,
      idempotent: false,
      metadataMaxAge: options.metadataMaxAgeMs ?? 30_000,
      retry: { initialRetryTime: 100, maxRetryTime: 500, retries: 4 },
    });
    this.#accumulator = new Accumulator({
      send: (records) => this.#send(records),
      maxBatchBytes: MAX_BATCH_BYTES,
      maxBatchRecords: MAX_BATCH_RECORDS,
      lingerMs: 4,
      maxInFlight: 3,
      maxQueuedBytes: options.maxQueuedBytes ?? DEFAULT_MAX_QUEUED_BYTES,
      appendTimeoutMs: options.appendTimeoutMs ?? DEFAULT_APPEND_TIMEOUT_MS,
      monotonic,
    });
  }

  /** Bytes that wait or are in flight: for metrics. */
  get queuedBytes(): number {
    return this.#accumulator.queuedBytes;
  }

  connect(): Promise<void> {
    return this.#producer.connect();
  }

  async append(records: readonly NewRecord[]): Promise<readonly Position[]> {
    if (this.#closed) throw new LogError("log_closed", "the log is closed");
    if (records.length === 0) return [];
    const partitions = this.#partitions();
    const placed = records.map((record) => this.#place(record, partitions));
    const chunks = chunk(placed, MAX_BATCH_BYTES);
    const [only] = chunks;
    if (chunks.length === 1 && only !== undefined)
      return positionsOf(await this.#accumulator.append(only));
    const appended: Appended[] = [];
    // One after the other: batches that fly together may land in another order.
    for (const part of chunks) appended.push(...(await this.#accumulator.append(part)));
    return positionsOf(appended);
  }

  #place(record: NewRecord, partitions: number): PlacedRecord {
    if (record.value.byteLength > this.#options.maxRecordBytes)
      throw new LogError(
        "log_record_too_large",
        `a record of ${record.value.byteLength} bytes is over the limit of ${this.#options.maxRecordBytes}`,
      );
    return {
      topic: record.topic,
      key: record.key,
      value: record.value,
      partition: record.partition ?? partitionOf(record.key, partitions),
    };
  }

  #send(records: readonly PlacedRecord[]) {
    const maybeSent = this.#wire.start();
    return { done: this.#sendBatch(records, maybeSent), maybeSent };
  }

  async #sendBatch(
    records: readonly PlacedRecord[],
    maybeSent: () => boolean,
  ): Promise<readonly Appended[]> {
    const messages = new Map<Topic, Message[]>();
    for (const { topic, key, value, partition } of records) {
      const message = {
        key,
        partition,
        value: Buffer.from(value.buffer, value.byteOffset, value.byteLength),
      };
      const list = messages.get(topic);
      if (list === undefined) messages.set(topic, [message]);
      else list.push(message);
    }
    try {
      const results = await this.#producer.sendBatch({
        acks: ALL_REPLICAS,
        timeout: 2_500,
        topicMessages: [...messages].map(([topic, list]) => ({
          topic: topicName(this.#options.topicPrefix, topic),
          messages: list,
        })),
      });
      const next = new Map<string, number | LogError>();
      for (const { topicName: name, ...answer } of results as readonly NamedAnswer[])
        next.set(
          `${name}/${answer.partition}`,
          answer.errorCode === 0 ? Number(answer.baseOffset) : refusalOf(name, answer),
        );
      return records.map(({ topic, partition }) => {
        const slot = `${topicName(this.#options.topicPrefix, topic)}/${partition}`;
        const offset = next.get(slot);
        if (offset === undefined) throw new Error(`no position for ${slot}`);
        if (offset instanceof LogError) return offset;
        next.set(slot, offset + 1);
        return { partition, offset };
      });
    } catch (error) {
      throw maybeSent()
        ? new LogError("log_outcome_unknown", "the log did not confirm the write", { cause: error })
        : new LogError("log_unavailable", "the log cannot be reached; not written", {
            cause: error,
          });
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await settledWithin([this.#accumulator.drained()], DRAIN_TIMEOUT_MS);
    this.#accumulator.close();
    await this.#producer.disconnect();
  }
}

/** @throws {LogError} that of the first record that is not there, with the positions of the others */
function positionsOf(appended: readonly Appended[]): readonly Position[] {
  const refusal = appended.find((one) => one instanceof LogError);
  if (refusal === undefined) return appended as readonly Position[];
  throw new LogError(refusal.code, refusal.message, {
    cause: refusal.cause,
    appended: appended.map((one) => (one instanceof LogError ? null : one)),
  });
}
