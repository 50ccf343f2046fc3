import { setTimeout as sleep } from "node:timers/promises";
import type { Cluster, KafkaMessage } from "kafkajs";
import { LogError, type LogRecord, type Topic } from "../../../domain/log.ts";
import { damagedFrom } from "../guards/damaged-batches.ts";
import { slotOf } from "../slot-of.ts";
import type { LostRecords } from "./lost-records.ts";

interface FetchedPartition {
  readonly partition: number;
  readonly messages: readonly (KafkaMessage & { readonly isControlRecord?: boolean })[];
}
interface FetchResponse {
  readonly responses: readonly { readonly partitions: readonly FetchedPartition[] }[];
}

const FETCH_BYTES = 1024 * 1024;
const FETCH_WAIT_MS = 50;
/** Two seconds: a leader that was just elected shows its newest records only once its followers have fetched them. */
const EMPTY_FETCHES = 40;
const TRIES = 10;
const RETRY_MS = 200;

export interface PartitionAddress {
  readonly topic: Topic;
  /** The topic's name at the brokers. */
  readonly name: string;
  readonly partition: number;
  /** Whether the answer is no longer waited for. */
  readonly isClosed?: () => boolean;
}

/** Looks up many offsets with one request per broker. */
export async function offsetsAt(
  cluster: Cluster,
  topics: readonly { readonly topic: string; readonly partitions: readonly number[] }[],
  end: "earliest" | "latest",
): Promise<(topic: string, partition: number) => number | null> {
  const answer = await cluster.fetchTopicsOffset(
    topics.map(({ topic, partitions }) => ({
      topic,
      partitions: partitions.map((partition) => ({ partition })),
      fromBeginning: end === "earliest",
    })),
  );
  const found = new Map(
    answer.flatMap(({ topic, partitions }) =>
      partitions.map(
        ({ partition, offset }) => [slotOf(topic, partition), Number(offset)] as const,
      ),
    ),
  );
  return (topic, partition) => found.get(slotOf(topic, partition)) ?? null;
}

/** Returns the offset of the next record, or of the oldest one left. */
export async function offsetAt(
  cluster: Cluster,
  { name, partition, isClosed }: PartitionAddress,
  end: "earliest" | "latest",
): Promise<number> {
  return withRetries(cluster, isClosed, async () => {
    const offsets = await offsetsAt(cluster, [{ topic: name, partitions: [partition] }], end);
    const offset = offsets(name, partition);
    if (offset === null)
      throw new LogError("log_unavailable", `no offsets for ${slotOf(name, partition)}`);
    return offset;
  });
}

/** Reads up to the log's end as of the call, past the consumer's own flow. @throws {LogError} */
export async function* readPartition(
  cluster: Cluster,
  address: PartitionAddress,
  fromOffset: number,
  onLost: (lost: LostRecords) => void,
): AsyncGenerator<readonly LogRecord[]> {
  const end = await offsetAt(cluster, address, "latest");
  let offset = fromOffset;
  if (offset < end) offset = Math.max(offset, await offsetAt(cluster, address, "earliest"));
  let emptyFetches = 0;
  while (offset < end) {
    const messages = await withRetries(cluster, address.isClosed, () =>
      fetchMessages(cluster, address, offset),
    );
    const last = messages.at(-1);
    if (last === undefined) {
      // The rest was compacted away: nothing will ever come.
      emptyFetches += 1;
      if (emptyFetches >= EMPTY_FETCHES) return;
      continue;
    }
    emptyFetches = 0;
    const from = offset;
    offset = Math.max(offset, Number(last.offset) + 1);
    const asked = messages
      .filter((message) => Number(message.offset) >= from && Number(message.offset) < end)
      .filter((message) => message.isControlRecord !== true);
    const records = toRecords(address, asked, from, onLost);
    if (records.length > 0) yield records;
  }
}

/** Converts what was fetched from `fromOffset` on, without what is damaged, of which it tells. */
export function toRecords(
  address: Pick<PartitionAddress, "topic" | "partition">,
  messages: readonly KafkaMessage[],
  fromOffset: number,
  onLost: (lost: LostRecords) => void,
): LogRecord[] {
  const { topic, partition } = address;
  const records: LogRecord[] = [];
  for (const message of messages) {
    const damaged = damagedFrom(message);
    if (damaged === null) records.push(toRecord(address, message));
    else {
      const from = Math.max(damaged, fromOffset);
      onLost({ topic, partition, from, to: Number(message.offset) + 1, why: "damaged" });
    }
  }
  return records;
}

function toRecord(
  { topic, partition }: Pick<PartitionAddress, "topic" | "partition">,
  message: KafkaMessage,
): LogRecord {
  return {
    topic,
    partition,
    offset: Number(message.offset),
    key: message.key?.toString() ?? "",
    value: message.value ?? new Uint8Array(0),
    appendedAtMs: Number(message.timestamp),
  };
}

async function fetchMessages(
  cluster: Cluster,
  { name, partition }: PartitionAddress,
  offset: number,
): Promise<FetchedPartition["messages"]> {
  const leader = Object.keys(cluster.findLeaderForPartitions(name, [partition]))[0];
  if (leader === undefined)
    throw new LogError("log_unavailable", `${slotOf(name, partition)} has no leader`);
  const broker = await cluster.findBroker({ nodeId: leader });
  const { responses } = (await broker.fetch({
    maxWaitTime: FETCH_WAIT_MS,
    minBytes: 1,
    maxBytes: FETCH_BYTES,
    isolationLevel: 1,
    topics: [
      {
        topic: name,
        partitions: [{ partition, fetchOffset: String(offset), maxBytes: FETCH_BYTES }],
      },
    ],
  })) as FetchResponse;
  return responses[0]?.partitions[0]?.messages ?? [];
}

/** Retries a few times before an error counts: leaders move and connections end. */
async function withRetries<T>(
  cluster: Cluster,
  isClosed: (() => boolean) | undefined,
  work: () => Promise<T>,
): Promise<T> {
  for (let attempt = 1; ; attempt += 1) {
    if (isClosed?.() === true) throw new LogError("log_closed", "the partition is another owner's");
    try {
      return await work();
    } catch (error) {
      if (attempt >= TRIES)
        throw new LogError("log_unavailable", "the log could not be read", { cause: error });
      await sleep(RETRY_MS);
      await cluster.refreshMetadata().catch(() => undefined);
    }
  }
}
