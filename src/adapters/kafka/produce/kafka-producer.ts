import type { Kafka, Message, Producer } from "kafkajs";
import { LogError, type NewRecord, type Position, type Topic } from "../../../domain/log.ts";
import { partitionOf } from "../../../domain/partition.ts";
import { TIMERS } from "../../../domain/clock.ts";
import { within } from "../../../domain/within.ts";
import { Accumulator, chunk, type Appended, type PlacedRecord } from "./accumulator.ts";
import {
  DEFAULT_APPEND_TIMEOUT_MS,
  DEFAULT_MAX_QUEUED_BYTES,
  DEFAULT_METADATA_MAX_AGE_MS,
  topicName,
  type KafkaLogOptions,
} from "../kafka-options.ts";
import { wasHandedOver } from "./handed-over.ts";
import { isFinal, refusalOf, type PartitionAnswer } from "./produce-answers.ts";
import { partitionName } from "../partition-name.ts";
import type { WireWatch } from "../wire-watch.ts";

const ALL_REPLICAS = -1;
const MAX_BATCH_BYTES = 512 * 1024;
const MAX_BATCH_RECORDS = 500;
const LINGER_MS = 4;
const MAX_IN_FLIGHT = 3;
/** A tenth of an append's time: far from what fails it, and more than brokers take that are near one another. */
const SLOW_ACK_MS = 300;
/** How long a leader waits for the other replicas; it answers before the append is given up. */
const REPLICAS_TIMEOUT_MS = 2_500;
const DRAIN_TIMEOUT_MS = 5_000;

/** The results of a batch, by names of partitions. */
interface Outcome {
  /** The offset of the partition's next record in the batch, or why its records are not there. */
  readonly answers: Map<string, number | LogError>;
  /** Partitions that were in a request. */
  readonly handedOver: Set<string>;
}
type NamedAnswer = PartitionAnswer & { readonly topicName: string };

/** The topics as the brokers have them, which may allow more than was configured. */
interface TopicsAsTheyAre {
  readonly partitions: () => number;
  readonly largestRecordBytes: () => Promise<number>;
}

/** `append` of the log port on kafkajs: batches, `acks=all`, no idempotence (it loses records under concurrent sends). */
export class KafkaProducer implements AsyncDisposable {
  readonly #options: KafkaLogOptions;
  readonly #producer: Producer;
  readonly #wire: WireWatch;
  readonly #topics: TopicsAsTheyAre;
  readonly #accumulator: Accumulator;
  #maxRecordBytes: number;
  #closed = false;

  constructor(
    kafka: Kafka,
    wire: WireWatch,
    options: KafkaLogOptions,
    topics: TopicsAsTheyAre,
    monotonic: () => number,
  ) {
    this.#options = options;
    this.#wire = wire;
    this.#topics = topics;
    this.#maxRecordBytes = options.maxRecordBytes;
    this.#producer = kafka.producer({
      allowAutoTopicCreation: false,
      idempotent: false,
      metadataMaxAge: options.metadataMaxAgeMs ?? DEFAULT_METADATA_MAX_AGE_MS,
      retry: { initialRetryTime: 100, maxRetryTime: 500, retries: 4 },
    });
    this.#accumulator = new Accumulator({
      send: (records) => this.#send(records),
      maxBatchBytes: MAX_BATCH_BYTES,
      maxBatchRecords: MAX_BATCH_RECORDS,
      lingerMs: LINGER_MS,
      maxInFlight: MAX_IN_FLIGHT,
      slowAckMs: SLOW_ACK_MS,
      maxQueuedBytes: options.maxQueuedBytes ?? DEFAULT_MAX_QUEUED_BYTES,
      appendTimeoutMs: options.appendTimeoutMs ?? DEFAULT_APPEND_TIMEOUT_MS,
      monotonic,
    });
  }

  connect(): Promise<void> {
    return this.#producer.connect();
  }

  async append(records: readonly NewRecord[]): Promise<readonly Position[]> {
    const largestBytes = records.reduce((most, { value }) => Math.max(most, value.byteLength), 0);
    if (largestBytes > this.#maxRecordBytes && !this.#closed) await this.#makeSureOf(largestBytes);
    if (this.#closed) throw new LogError("log_closed", "the log is closed");
    if (records.length === 0) return [];
    const partitions = this.#topics.partitions();
    const placed = records.map((record) => place(record, partitions));
    const chunks = chunk(placed, MAX_BATCH_BYTES);
    const [only] = chunks;
    if (chunks.length === 1 && only !== undefined)
      return positionsOf(await this.#accumulator.append(only));
    return positionsOf(await this.#appendInTurn(chunks, placed.length));
  }

  /**
   * Appends one chunk after the other: batches in flight together may land in another order. After one that failed nothing more is
   * sent; after one that its partition did not take, nothing more to that partition.
   */
  async #appendInTurn(
    chunks: readonly (readonly PlacedRecord[])[],
    recordCount: number,
  ): Promise<readonly Appended[]> {
    const appended: Appended[] = [];
    const refusals = new Map<string, LogError>();
    try {
      for (const part of chunks) {
        const before = part.map(({ topic, partition }) =>
          refusals.get(partitionName(topic, partition)),
        );
        const open = part.filter((_, index) => before[index] === undefined);
        const answers = (open.length === 0 ? [] : await this.#accumulator.append(open)).values();
        for (const [index, record] of part.entries()) {
          const answer = before[index] ?? answers.next().value!;
          if (answer instanceof LogError)
            refusals.set(partitionName(record.topic, record.partition), answer);
          appended.push(answer);
        }
      }
    } catch (error) {
      if (appended.length === 0 || !(error instanceof LogError)) throw error;
      while (appended.length < recordCount) appended.push(error);
    }
    return appended;
  }

  /** Looks up what the topics take: records from when the limit was larger go on wherever they still fit. @throws {LogError} */
  async #makeSureOf(sizeBytes: number): Promise<void> {
    const taken = await this.#topics.largestRecordBytes().catch((cause: unknown) => {
      throw unconfirmed(false, cause);
    });
    this.#maxRecordBytes = Math.max(this.#options.maxRecordBytes, taken);
    if (sizeBytes > this.#maxRecordBytes)
      throw new LogError(
        "log_record_too_large",
        `a record of ${sizeBytes} bytes is over the limit of ${this.#maxRecordBytes}`,
      );
  }

  #send(records: readonly PlacedRecord[]) {
    const maybeSent = this.#wire.start();
    return { done: this.#sendBatch(records, maybeSent), maybeSent };
  }

  async #sendBatch(
    records: readonly PlacedRecord[],
    maybeSent: () => boolean,
  ): Promise<readonly Appended[]> {
    const { topicPrefix } = this.#options;
    const names = records.map(({ topic, partition }) =>
      partitionName(topicName(topicPrefix, topic), partition),
    );
    const outcome: Outcome = { answers: new Map(), handedOver: new Set() };
    const { answers, handedOver } = outcome;
    let failure: unknown = null;
    try {
      // A partition that has moved is in none of the client's own retries if its old or its new leader has answered for others. So
      // what is left is sent again, as long as that helps.
      let left = [...records.keys()];
      let hasHelped = true;
      for (let tries = 0; left.length > 0 && (hasHelped || tries < 2); tries += 1) {
        await this.#produce(
          left.map((index) => records[index]!),
          left.map((index) => names[index]!),
          outcome,
        );
        const stillLeft = left.filter((index) => !answers.has(names[index]!));
        hasHelped = stillLeft.length < left.length;
        left = stillLeft;
      }
    } catch (error) {
      failure = error;
    }
    return records.map(({ partition }, index) => {
      const name = names[index]!;
      let answer = answers.get(name);
      if (answer === undefined) {
        answer = unanswered(name, handedOver.has(name) && maybeSent(), failure);
        answers.set(name, answer);
      }
      if (answer instanceof LogError) return answer;
      answers.set(name, answer + 1);
      return { partition, offset: answer };
    });
  }

  /** `names` are those of the records' partitions. @throws what the client throws; some records may have been answered for before */
  async #produce(
    records: readonly PlacedRecord[],
    names: readonly string[],
    { answers, handedOver }: Outcome,
  ): Promise<void> {
    const messages = new Map<Topic, Message[]>();
    const firsts = new Map<string, Message>();
    for (const [index, { topic, key, value, partition }] of records.entries()) {
      const message = {
        key,
        partition,
        value: Buffer.from(value.buffer, value.byteOffset, value.byteLength),
      };
      const list = messages.get(topic);
      if (list === undefined) messages.set(topic, [message]);
      else list.push(message);
      if (!firsts.has(names[index]!)) firsts.set(names[index]!, message);
    }
    try {
      const results = await this.#producer.sendBatch({
        acks: ALL_REPLICAS,
        timeout: REPLICAS_TIMEOUT_MS,
        topicMessages: [...messages].map(([topic, list]) => ({
          topic: topicName(this.#options.topicPrefix, topic),
          messages: list,
        })),
      });
      for (const { topicName: topic, ...answer } of results as readonly NamedAnswer[]) {
        const name = partitionName(topic, answer.partition);
        // If they were sent again to a new leader that refuses them, the last one has them all the same.
        if (!isFinal(answer) || typeof answers.get(name) === "number") continue;
        answers.set(
          name,
          answer.errorCode === 0 ? Number(answer.baseOffset) : refusalOf(topic, answer),
        );
      }
    } finally {
      for (const [name, first] of firsts) if (wasHandedOver(first)) handedOver.add(name);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#closed) return;
    this.#closed = true;
    await within(this.#accumulator.drained(), DRAIN_TIMEOUT_MS, () => {}, TIMERS);
    this.#accumulator.close();
    await this.#producer.disconnect();
  }
}

function place(record: NewRecord, partitions: number): PlacedRecord {
  return {
    topic: record.topic,
    key: record.key,
    value: record.value,
    partition: record.partition ?? partitionOf(record.key, partitions),
  };
}

function unconfirmed(maybeSent: boolean, cause: unknown): LogError {
  return maybeSent
    ? new LogError("log_outcome_unknown", "the log did not confirm the write", { cause })
    : new LogError("log_unavailable", "the log cannot be reached; not written", { cause });
}

/** Returns why no broker has answered for a partition. `failure` is why the client gave up; null if it left the partition out. */
function unanswered(name: string, maybeSent: boolean, failure: unknown): LogError {
  if (failure !== null) return unconfirmed(maybeSent, failure);
  const cause = new Error(`no broker answered for ${name}`);
  if (maybeSent) return unconfirmed(true, cause);
  return new LogError("log_unavailable", `${name} has no leader that can be reached; not written`, {
    cause,
  });
}

/**
 * @throws {LogError} of the first record that may or may not be there, else of the first that is not; with the positions of
 * the others
 */
function positionsOf(appended: readonly Appended[]): readonly Position[] {
  const refusals = appended.filter((one) => one instanceof LogError);
  const refusal = refusals.find(({ code }) => code === "log_outcome_unknown") ?? refusals[0];
  if (refusal === undefined) return appended as readonly Position[];
  throw new LogError(refusal.code, refusal.message, {
    cause: refusal.cause,
    appended: appended.map((one) => (one instanceof LogError ? null : one)),
  });
}
