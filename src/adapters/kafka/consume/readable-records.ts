import type { Broker, Cluster } from "kafkajs";
import type { LogRecord, Topic } from "../../../domain/log.ts";
import { damagedFrom } from "../guards/damaged-batches.ts";
import { endOf, fetchMessages, type FetchedMessage } from "./fetch-messages.ts";
import type { LossTeller } from "./lost-records.ts";

export interface TopicPartition {
  readonly topic: Topic;
  /** The topic's name at the brokers. */
  readonly name: string;
  readonly partition: number;
}
interface Stretch {
  readonly from: number;
  readonly to: number;
}

/** A copy shows its newest records only once it has heard from the leader that all copies have them. */
const EMPTY_FETCHES = 10;

/**
 * Converts what was fetched from `fromOffset` on. What is damaged at the partition's leader is read from another broker's copy; what no
 * copy has whole is left out. Both are told of.
 */
export async function readableRecords(
  cluster: Cluster,
  place: TopicPartition,
  messages: readonly FetchedMessage[],
  fromOffset: number,
  losses: LossTeller,
): Promise<LogRecord[]> {
  const records: LogRecord[] = [];
  for (const message of messages) {
    const damaged = damagedFrom(message);
    if (damaged === null) records.push(toRecord(place, message));
    else {
      const stretch = { from: Math.max(damaged, fromOffset), to: Number(message.offset) + 1 };
      records.push(...(await readElsewhere(cluster, place, stretch, losses)));
    }
  }
  return records;
}

async function readElsewhere(
  cluster: Cluster,
  place: TopicPartition,
  stretch: Stretch,
  losses: LossTeller,
): Promise<readonly LogRecord[]> {
  const { topic, name, partition } = place;
  const found = cluster
    .findTopicPartitionMetadata(name)
    .find(({ partitionId }) => partitionId === partition);
  const copies = (found?.isr ?? []).filter((nodeId) => nodeId !== found?.leader);
  for (const nodeId of copies) {
    const broker = await cluster.findBroker({ nodeId: String(nodeId) }).catch(() => null);
    const records = broker && (await readCopy(broker, place, stretch).catch(() => null));
    if (records === null) continue;
    losses.mended({ topic, partition, ...stretch }, nodeId);
    return records;
  }
  losses.lost({ topic, partition, ...stretch, why: "damaged" });
  return [];
}

/** Returns null where this copy is damaged as well, or does not answer for all of it. Brokers answer for copies since Kafka 2.4 (KIP-392). */
async function readCopy(
  broker: Broker,
  place: TopicPartition,
  { from, to }: Stretch,
): Promise<readonly LogRecord[] | null> {
  const records: LogRecord[] = [];
  let emptyFetches = 0;
  for (let offset = from; offset < to;) {
    const { messages } = await fetchMessages(broker, place, offset);
    const last = messages.at(-1);
    if (last === undefined) {
      emptyFetches += 1;
      if (emptyFetches >= EMPTY_FETCHES) return null;
      continue;
    }
    for (const message of messages) {
      const damaged = damagedFrom(message);
      if (damaged !== null && damaged < to) return null;
      const at = Number(message.offset);
      if (at >= offset && at < to && message.isControlRecord !== true)
        records.push(toRecord(place, message));
    }
    offset = Math.max(offset, endOf(last));
  }
  return records;
}

function toRecord(
  { topic, partition }: Pick<TopicPartition, "topic" | "partition">,
  message: FetchedMessage,
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
