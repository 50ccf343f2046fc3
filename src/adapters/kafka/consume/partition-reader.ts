import type { Cluster } from "kafkajs";
import { LogError, type LogRecord } from "../../../domain/log.ts";
import { partitionName } from "../partition-name.ts";
import { endOf, fetchMessages, type Fetched } from "./fetch-messages.ts";
import type { LossTeller } from "./lost-records.ts";
import { offsetAt, type PartitionAddress } from "./partition-offsets.ts";
import { readableRecords, type TopicPartition } from "./readable-records.ts";
import { withRetries } from "./with-retries.ts";

/** Two seconds. */
const EMPTY_FETCHES = 40;

/**
 * Reads up to the log's end as of the call, past the consumer's own flow. A leader that was just elected shows its newest records only
 * once all replicas that count as there have fetched them: what it does not show yet is not taken for compacted away.
 * @throws {LogError}
 */
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
    const { messages, shownTo } = await withRetries(cluster, address.isClosed, () =>
      fetchFromLeader(cluster, address, offset),
    );
    const last = messages.at(-1);
    if (last === undefined) {
      // The rest was compacted away: nothing will ever come.
      if (shownTo >= end) return;
      emptyFetches += 1;
      if (emptyFetches < EMPTY_FETCHES) continue;
      const where = partitionName(address.name, address.partition);
      throw new LogError("log_unavailable", `the leader of ${where} does not show all of it`);
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
): Promise<Fetched> {
  const { name, partition } = place;
  const leader = Object.keys(cluster.findLeaderForPartitions(name, [partition]))[0];
  if (leader === undefined)
    throw new LogError("log_unavailable", `${partitionName(name, partition)} has no leader`);
  return fetchMessages(await cluster.findBroker({ nodeId: leader }), place, offset);
}
