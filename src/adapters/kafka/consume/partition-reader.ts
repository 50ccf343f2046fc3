import { setTimeout as sleep } from "node:timers/promises";
import type { Cluster } from "kafkajs";
import { LogError, type LogRecord } from "../../../domain/log.ts";
import { slotOf } from "../slot-of.ts";
import { endOf, fetchMessages, type FetchedMessage } from "./fetch-messages.ts";
import type { LossTeller } from "./lost-records.ts";
import { readableRecords, type TopicPartition } from "./readable-records.ts";

/** Two seconds: a leader that was just elected shows its newest records only once its followers have fetched them. */
const EMPTY_FETCHES = 40;
const TRIES = 10;
const RETRY_MS = 200;

export interface PartitionAddress extends TopicPartition {
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
  losses: LossTeller,
): AsyncGenerator<readonly LogRecord[]> {
  const end = await offsetAt(cluster, address, "latest");
  let offset = fromOffset;
  if (offset < end) offset = Math.max(offset, await offsetAt(cluster, address, "earliest"));
  let emptyFetches = 0;
  while (offset < end) {
    const messages = await withRetries(cluster, address.isClosed, () =>
      fetchFromLeader(cluster, address, offset),
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
    offset = Math.max(offset, endOf(last));
    const asked = messages
      .filter((message) => Number(message.offset) >= from && Number(message.offset) < end)
      .filter((message) => message.isControlRecord !== true);
    const records = await readableRecords(cluster, address, asked, from, losses);
    if (records.length > 0) yield records;
  }
}

async function fetchFromLeader(
  cluster: Cluster,
  place: TopicPartition,
  offset: number,
): Promise<readonly FetchedMessage[]> {
  const { name, partition } = place;
  const leader = Object.keys(cluster.findLeaderForPartitions(name, [partition]))[0];
  if (leader === undefined)
    throw new LogError("log_unavailable", `${slotOf(name, partition)} has no leader`);
  return fetchMessages(await cluster.findBroker({ nodeId: leader }), place, offset);
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
