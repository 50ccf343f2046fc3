import { setTimeout as sleep } from "node:timers/promises";
import type { Admin, ITopicConfig, ITopicMetadata } from "kafkajs";
import { TOPICS, LogError } from "../../domain/log.ts";
import type { Logger } from "../../domain/logger.ts";
import { messageOf } from "../../domain/thrown.ts";
import { checkReplicas, checkRequestSize, checkSettings, describeTopics } from "./check-topics.ts";
import { topicName, type KafkaLogOptions } from "./kafka-options.ts";
import { isNotAuthorized, neededRight } from "./missing-right.ts";
import { slotOf } from "./slot-of.ts";
import { FRAMING_BYTES, longestWaitMs, maxBatchBytes, topicSettings } from "./topic-settings.ts";

const REPLICATED_BROKERS = 3;
const READY_TRIES = 50;
const READY_RETRY_MS = 200;

/** Returns the largest record that any of the topics takes as it is now: one made for a larger limit keeps it. */
export async function largestRecordBytes(admin: Admin, names: readonly string[]): Promise<number> {
  const key = "max.message.bytes";
  const resources = await describeTopics(
    admin,
    names.map((name) => ({ name, keys: [key] })),
  );
  const limits = resources.flatMap(({ configEntries }) => configEntries);
  return Math.max(0, ...limits.map(({ configValue }) => Number(configValue) - FRAMING_BYTES));
}

/**
 * Makes missing topics, grows those with too few partitions, and compares the settings of existing ones, for as many replicas
 * as each has: settings that would lose or refuse records are an error; other differences and too few replicas are a warning.
 * @throws {LogError} `log_unavailable`, saying what to change
 */
export async function ensureTopics(
  admin: Admin,
  options: KafkaLogOptions,
  logger: Logger,
): Promise<void> {
  await checkRequestSize(admin, maxBatchBytes(options.maxRecordBytes));
  const existing = new Set(await admin.listTopics());
  const isMissing = TOPICS.some((topic) => !existing.has(topicName(options.topicPrefix, topic)));
  const brokerCount = isMissing
    ? await waitForBrokers(admin, options)
    : (await admin.describeCluster()).brokers.length;
  const replicationFactor =
    options.replicationFactor ?? (brokerCount >= REPLICATED_BROKERS ? REPLICATED_BROKERS : 1);
  const specs = TOPICS.map((topic) => ({
    name: topicName(options.topicPrefix, topic),
    settingsOf: (replicas: number) => topicSettings(topic, replicas, options),
    leastRetentionMs: longestWaitMs(topic, options),
  }));
  const missing: ITopicConfig[] = specs
    .filter(({ name }) => !existing.has(name))
    .map(({ name, settingsOf }) => ({
      topic: name,
      numPartitions: options.partitions,
      replicationFactor,
      configEntries: Object.entries(settingsOf(replicationFactor)).map(([key, value]) => ({
        name: key,
        value,
      })),
    }));
  const names = specs.map(({ name }) => name);
  // Another process may make them at the same moment, which is fine.
  if (missing.length > 0) await makeTopics(admin, missing, options);
  const found = await waitForPartitions(admin, names, 1, (name) =>
    existing.has(name) ? Infinity : 0,
  );
  // All topics get the same count: partition p of one belongs with p of all others.
  const counts = [...found.values()].map(({ partitions }) => partitions);
  const wanted = Math.max(options.partitions, ...counts);
  const small = names.filter((name) => (found.get(name)?.partitions ?? 0) < wanted);
  if (small.length > 0) {
    const refused = await growTopics(admin, small, wanted, options);
    await waitForPartitions(admin, names, wanted, (name) => found.get(name)?.partitions ?? 0).catch(
      (error: unknown) => {
        throw refused ?? error;
      },
    );
  }
  const checked = specs
    .filter(({ name }) => existing.has(name))
    .map(({ name, settingsOf, leastRetentionMs }) => {
      const replicas = found.get(name)?.replicas ?? replicationFactor;
      const settings = settingsOf(Math.min(replicationFactor, replicas));
      return { name, replicas, settings, leastRetentionMs };
    });
  if (checked.length === 0) return;
  checkReplicas(checked, replicationFactor, logger);
  await checkSettings(admin, checked, logger);
}

export interface TopicsFound {
  /** The partition count that holds for all topics: the smallest, while some are still being grown. */
  readonly partitions: number;
  /** `topic/partition`, with the brokers' name of the topic. */
  readonly leaderless: readonly string[];
  /** Names of topics with fewer partitions than another one: they are being grown, or somebody else grew the other. */
  readonly small: readonly string[];
}

/** @throws {LogError} `log_unavailable` when a topic has no partition with a leader */
export async function findTopics(admin: Admin, names: readonly string[]): Promise<TopicsFound> {
  const { topics } = await admin.fetchTopicMetadata({ topics: [...names] });
  for (const { name, partitions } of topics)
    if (partitions.every(isLeaderless))
      throw new LogError("log_unavailable", `no partition of ${name} has a leader`);
  const counts = topics.map(({ partitions }) => partitions.length);
  const most = Math.max(...counts);
  return {
    partitions: Math.min(...counts),
    small: topics.filter(({ partitions }) => partitions.length < most).map(({ name }) => name),
    leaderless: topics.flatMap((topic) => leaderlessOf(topic)),
  };
}

function isLeaderless({ leader }: { readonly leader: number }): boolean {
  return leader < 0;
}

/** Returns those from this number on. */
function leaderlessOf({ name, partitions }: ITopicMetadata, from = 0): readonly string[] {
  return partitions
    .filter((partition) => partition.partitionId >= from && isLeaderless(partition))
    .map(({ partitionId }) => slotOf(name, partitionId));
}

export async function missingTopics(
  admin: Admin,
  names: readonly string[],
): Promise<readonly string[]> {
  const existing = new Set(await admin.listTopics());
  return names.filter((name) => !existing.has(name));
}

/**
 * Returns how many brokers there are, once there are enough for the replicas of the topics: made while some are away, topics would
 * have one replica forever.
 */
async function waitForBrokers(
  admin: Admin,
  { replicationFactor, connection }: KafkaLogOptions,
): Promise<number> {
  const named = new Set(connection.brokers).size;
  const needed = replicationFactor ?? (named < REPLICATED_BROKERS ? 1 : REPLICATED_BROKERS);
  for (let attempt = 1; ; attempt += 1) {
    const { length } = (await admin.describeCluster()).brokers;
    if (length >= needed) return length;
    if (attempt >= READY_TRIES)
      throw new LogError(
        "log_unavailable",
        `new topics are to lie on ${needed} brokers, and ${length} are there: start the others, or set RELAY_REPLICATION_FACTOR to ${length} at most`,
      );
    await sleep(READY_RETRY_MS);
  }
}

interface TopicError extends Error {
  readonly type: string;
  readonly topic: string;
}

async function makeTopics(
  admin: Admin,
  topics: ITopicConfig[],
  { topicPrefix }: KafkaLogOptions,
): Promise<void> {
  try {
    await admin.createTopics({ topics, waitForLeaders: false });
  } catch (error) {
    // The error itself says only that there were errors.
    const { errors } = error as { readonly errors?: readonly TopicError[] };
    const first = errors?.find(({ type }) => type !== "TOPIC_ALREADY_EXISTS");
    if (first === undefined) throw error;
    const why = [`topic ${first.topic} cannot be made`, first.message];
    if (isNotAuthorized(first)) why.push(neededRight("Create", "topics", topicPrefix));
    throw new LogError("log_unavailable", why.join(": "), { cause: error });
  }
}

/** @returns why it was refused for want of a right, if so: another process may have it, and be about to use it */
async function growTopics(
  admin: Admin,
  names: readonly string[],
  count: number,
  { topicPrefix, logger }: KafkaLogOptions,
): Promise<LogError | null> {
  try {
    await admin.createPartitions({
      topicPartitions: names.map((topic) => ({ topic, count })),
    });
    logger.info({ partitions: count, topics: names }, "log.topics_grown");
    return null;
  } catch (error) {
    // Refused when another process was faster; whether they have grown is looked up next.
    logger.warn({ partitions: count, err: error }, "log.topics_not_grown");
    if (!(error instanceof Error && isNotAuthorized(error))) return null;
    const needed = neededRight("Alter", "topics", topicPrefix);
    return new LogError(
      "log_unavailable",
      `the topics cannot be grown to ${count} partitions (RELAY_PARTITIONS): ${needed}`,
      { cause: error },
    );
  }
}

interface FoundTopic {
  readonly partitions: number;
  /** Replicas of the partition that has the fewest. */
  readonly replicas: number;
}

/**
 * Returns every topic, once its new partitions, those from `newFrom` on, have leaders that answer. New topics are known to some
 * brokers before others, and leaders are named before they are ready: a record sent too early is refused, and sent again
 * with its neighbours. Older partitions may have to do without some of their leaders.
 */
async function waitForPartitions(
  admin: Admin,
  names: readonly string[],
  atLeast: number,
  newFrom: (name: string) => number,
): Promise<ReadonlyMap<string, FoundTopic>> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      const { topics } = await admin.fetchTopicMetadata({ topics: [...names] });
      const small = topics.find(({ partitions }) => partitions.length < atLeast);
      if (small !== undefined)
        throw new Error(`${small.name} has fewer than ${atLeast} partitions`);
      const [leaderless] = topics.flatMap((topic) => leaderlessOf(topic, newFrom(topic.name)));
      if (leaderless !== undefined) throw new Error(`${leaderless} has no leader`);
      const grown = topics.filter(({ name, partitions }) => newFrom(name) < partitions.length);
      await Promise.all(grown.map(({ name }) => admin.fetchTopicOffsets(name)));
      return new Map(
        topics.map(({ name, partitions }) => [
          name,
          {
            partitions: partitions.length,
            replicas: Math.min(...partitions.map(({ replicas }) => replicas.length)),
          },
        ]),
      );
    } catch (error) {
      if (attempt >= READY_TRIES)
        throw new LogError(
          "log_unavailable",
          `the topics do not become ready: ${messageOf(error)} (start again once the brokers have caught up)`,
          { cause: error },
        );
      await sleep(READY_RETRY_MS);
    }
  }
}
