import { setTimeout as sleep } from "node:timers/promises";
import type { Admin, ITopicConfig } from "kafkajs";
import { TOPICS, LogError } from "../../domain/log.ts";
import { messageOf } from "../../domain/thrown.ts";
import { checkReplicas, checkRequestSize, checkSettings } from "./check-topics.ts";
import { leaderlessOf } from "./find-topics.ts";
import { topicName, type KafkaLogOptions } from "./kafka-options.ts";
import { isNotAuthorized, neededRight } from "./missing-right.ts";
import { maxWaitMs, maxBatchBytes, topicSettings } from "./topic-settings.ts";

const REPLICATED_BROKERS = 3;
const READY_TRIES = 50;
const READY_RETRY_MS = 200;

/** A topic as it is to be. */
interface TopicPlan {
  readonly name: string;
  /** Returns its settings, which depend on how many replicas it has. */
  readonly settingsOf: (replicas: number) => Readonly<Record<string, string>>;
  /** How long records may have to wait there even if all goes well. */
  readonly minRetentionMs: number;
}

/**
 * Makes missing topics, grows those with too few partitions, and compares the settings of existing ones, for as many replicas
 * as each has: settings that would lose or refuse records are an error; other differences and too few replicas are a warning.
 * @throws {LogError} `log_unavailable`, saying what to change
 */
export async function ensureTopics(admin: Admin, options: KafkaLogOptions): Promise<void> {
  await checkRequestSize(admin, maxBatchBytes(options.maxRecordBytes));
  const plans = TOPICS.map((topic): TopicPlan => ({
    name: topicName(options.topicPrefix, topic),
    settingsOf: (replicas) => topicSettings(topic, replicas, options),
    minRetentionMs: maxWaitMs(topic, options),
  }));
  const listed = new Set(await admin.listTopics());
  const missing = plans.filter(({ name }) => !listed.has(name));
  const existing = plans.filter(({ name }) => listed.has(name));
  const replicationFactor = await chooseReplicationFactor(admin, options, missing.length > 0);
  if (missing.length > 0) await makeTopics(admin, missing, replicationFactor, options);
  const found = await waitForPartitions(
    admin,
    plans.map(({ name }) => name),
    1,
    (name) => (listed.has(name) ? Infinity : 0),
  );
  await growToOneCount(admin, found, options);
  if (existing.length > 0) await checkExisting(admin, existing, found, replicationFactor, options);
}

async function chooseReplicationFactor(
  admin: Admin,
  options: KafkaLogOptions,
  isForNewTopics: boolean,
): Promise<number> {
  const brokerCount = isForNewTopics
    ? await waitForBrokers(admin, options)
    : (await admin.describeCluster()).brokers.length;
  return options.replicationFactor ?? (brokerCount >= REPLICATED_BROKERS ? REPLICATED_BROKERS : 1);
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

/** Another process may make them at the same moment, which is fine. */
async function makeTopics(
  admin: Admin,
  plans: readonly TopicPlan[],
  replicationFactor: number,
  { partitions, topicPrefix }: KafkaLogOptions,
): Promise<void> {
  const topics = plans.map(({ name, settingsOf }): ITopicConfig => ({
    topic: name,
    numPartitions: partitions,
    replicationFactor,
    configEntries: Object.entries(settingsOf(replicationFactor)).map(([key, value]) => ({
      name: key,
      value,
    })),
  }));
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

/** Gives all topics the same count, since partition p of one belongs with p of all others: the wanted one, or the largest there is. */
async function growToOneCount(
  admin: Admin,
  found: ReadonlyMap<string, FoundTopic>,
  options: KafkaLogOptions,
): Promise<void> {
  const counts = [...found.values()].map(({ partitions }) => partitions);
  const wanted = Math.max(options.partitions, ...counts);
  const names = [...found.keys()];
  const countOf = (name: string): number => found.get(name)?.partitions ?? 0;
  const small = names.filter((name) => countOf(name) < wanted);
  if (small.length === 0) return;
  const refused = await growTopics(admin, small, wanted, options);
  await waitForPartitions(admin, names, wanted, countOf).catch((error: unknown) => {
    throw refused ?? error;
  });
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

async function checkExisting(
  admin: Admin,
  plans: readonly TopicPlan[],
  found: ReadonlyMap<string, FoundTopic>,
  replicationFactor: number,
  { logger }: KafkaLogOptions,
): Promise<void> {
  const specs = plans.map(({ name, settingsOf, minRetentionMs }) => {
    const replicas = found.get(name)?.replicas ?? replicationFactor;
    const settings = settingsOf(Math.min(replicationFactor, replicas));
    return { name, replicas, settings, minRetentionMs };
  });
  checkReplicas(specs, replicationFactor, logger);
  await checkSettings(admin, specs, logger);
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
