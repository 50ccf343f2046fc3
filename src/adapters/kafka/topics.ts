import type { Admin, ITopicConfig } from "kafkajs";
import { TOPICS, LogError, type Topic } from "../../domain/log.ts";
import type { Logger } from "../../domain/logger.ts";
import { ConfigResourceTypes } from "./kafkajs.ts";
import { topicName, type KafkaLogOptions } from "./kafka-options.ts";

const DAY_MS = 86_400_000;
/** A consumer may be down for so long without losing anything. */
const WORK_RETENTION_MS = 7 * DAY_MS;
/** Record batches carry headers, keys and head fields beside the values. */
const FRAMING_BYTES = 1024 * 1024;
/** A new owner reads all of `limits`, and what was written to it last is never compacted: by default, a week or 1 GB. */
const COMPACTED_SEGMENT_BYTES = 16 * 1024 * 1024;
/** What the client can read; a broker that is set to another one compresses anew whatever it is sent. */
const READABLE_COMPRESSIONS: ReadonlySet<string> = new Set(["producer", "uncompressed", "gzip"]);
/** Where another value would lose records, or refuse them. */
const FATAL_SETTINGS: ReadonlySet<string> = new Set([
  "max.message.bytes",
  "cleanup.policy",
  "compression.type",
]);
const REPLICATED_BROKERS = 3;
const READY_TRIES = 50;
const READY_RETRY_MS = 200;

/**
 * The settings a topic must have. Work topics keep records for a week; `held` longer than any task may be held (the
 * stage ends them first, as `dead`); `limits` keeps the last state of every key.
 */
export function topicSettings(
  topic: Topic,
  replicationFactor: number,
  options: Pick<KafkaLogOptions, "maxRecordBytes" | "retentionMs">,
): Readonly<Record<string, string>> {
  const retention =
    topic === "limits"
      ? { "cleanup.policy": "compact", "segment.bytes": String(COMPACTED_SEGMENT_BYTES) }
      : {
          "cleanup.policy": "delete",
          "retention.bytes": "-1",
          "retention.ms": String(
            topic === "held"
              ? Math.max(options.retentionMs + WORK_RETENTION_MS, WORK_RETENTION_MS)
              : WORK_RETENTION_MS,
          ),
        };
  return {
    ...retention,
    "min.insync.replicas": replicationFactor >= 3 ? "2" : "1",
    "unclean.leader.election.enable": "false",
    "max.message.bytes": String(maxBatchBytes(options.maxRecordBytes)),
    "compression.type": "producer",
  };
}

/** The largest record that one of the topics takes as they are now: those made for a larger limit keep theirs. */
export async function largestRecordBytes(admin: Admin, names: readonly string[]): Promise<number> {
  const key = "max.message.bytes";
  const resources = await describeTopics(
    admin,
    names.map((name) => ({ name, keys: [key] })),
  );
  const limits = resources.flatMap(({ configEntries }) => configEntries);
  return Math.max(0, ...limits.map(({ configValue }) => Number(configValue) - FRAMING_BYTES));
}

/** Largest record batch that the topics take. */
export function maxBatchBytes(maxRecordBytes: number): number {
  return maxRecordBytes + FRAMING_BYTES;
}

/**
 * Makes missing topics, grows those with too few partitions, and compares the settings of existing ones: those that
 * would lose or refuse records are an error, others a warning.
 * @throws {LogError} `log_unavailable` with what to change
 */
export async function ensureTopics(
  admin: Admin,
  options: KafkaLogOptions,
  logger: Logger,
): Promise<void> {
  const existing = new Set(await admin.listTopics());
  const isMissing = TOPICS.some((topic) => !existing.has(topicName(options.topicPrefix, topic)));
  const brokerCount = isMissing
    ? await waitForBrokers(admin, options)
    : (await admin.describeCluster()).brokers.length;
  const replicationFactor =
    options.replicationFactor ?? (brokerCount >= REPLICATED_BROKERS ? REPLICATED_BROKERS : 1);
  const specs = TOPICS.map((topic) => ({
    name: topicName(options.topicPrefix, topic),
    settings: topicSettings(topic, replicationFactor, options),
  }));
  const missing: ITopicConfig[] = specs
    .filter(({ name }) => !existing.has(name))
    .map(({ name, settings }) => ({
      topic: name,
      numPartitions: options.partitions,
      replicationFactor,
      configEntries: Object.entries(settings).map(([key, value]) => ({ name: key, value })),
    }));
  const names = specs.map(({ name }) => name);
  // Another process may make them at the same moment: that is fine.
  if (missing.length > 0) await makeTopics(admin, missing);
  const found = await waitForPartitions(admin, names, 1);
  // All topics get the same count: partition p of one belongs with p of all.
  const wanted = Math.max(options.partitions, ...found.values());
  const small = names.filter((name) => (found.get(name) ?? 0) < wanted);
  if (small.length > 0) {
    await growTopics(admin, small, wanted, logger);
    await waitForPartitions(admin, names, wanted);
  }
  const checked = specs.filter(({ name }) => existing.has(name));
  if (checked.length > 0) await checkSettings(admin, checked, logger);
}

/** The partition count that holds for all topics: the smallest, while some are still being grown. */
export async function partitionCount(admin: Admin, names: readonly string[]): Promise<number> {
  const { topics } = await admin.fetchTopicMetadata({ topics: [...names] });
  for (const { name, partitions } of topics) {
    const leaderless = partitions.find(({ leader }) => leader < 0);
    if (leaderless !== undefined)
      throw new LogError(
        "log_unavailable",
        `partition ${leaderless.partitionId} of ${name} has no leader`,
      );
  }
  return Math.min(...topics.map(({ partitions }) => partitions.length));
}

export async function missingTopics(
  admin: Admin,
  names: readonly string[],
): Promise<readonly string[]> {
  const existing = new Set(await admin.listTopics());
  return names.filter((name) => !existing.has(name));
}

/**
 * How many brokers there are, once all that the topics are to lie on have come: made while some are away, they would
 * have one replica for ever.
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
    await new Promise((resolve) => setTimeout(resolve, READY_RETRY_MS));
  }
}

interface TopicError extends Error {
  readonly type: string;
  readonly topic: string;
}

async function makeTopics(admin: Admin, topics: ITopicConfig[]): Promise<void> {
  try {
    await admin.createTopics({ topics, waitForLeaders: false });
  } catch (error) {
    // Says of itself only that there were errors.
    const { errors } = error as { readonly errors?: readonly TopicError[] };
    const first = errors?.find(({ type }) => type !== "TOPIC_ALREADY_EXISTS");
    if (first === undefined) throw error;
    throw new LogError("log_unavailable", `topic ${first.topic} cannot be made: ${first.message}`, {
      cause: error,
    });
  }
}

async function growTopics(
  admin: Admin,
  names: readonly string[],
  count: number,
  logger: Logger,
): Promise<void> {
  try {
    await admin.createPartitions({
      topicPartitions: names.map((topic) => ({ topic, count })),
    });
    logger.info({ partitions: count, topics: names }, "log.topics_grown");
  } catch (error) {
    // Refused when another process was faster; whether they have grown is looked up next.
    logger.warn({ partitions: count, err: String(error) }, "log.topics_not_grown");
  }
}

/**
 * Partition count of every topic, once all have leaders that answer. New topics are known to some brokers before
 * others, and leaders are named before they are ready: a record sent too early is refused and repeated with its
 * neighbours.
 */
async function waitForPartitions(
  admin: Admin,
  names: readonly string[],
  atLeast: number,
): Promise<ReadonlyMap<string, number>> {
  for (let attempt = 1; ; attempt += 1) {
    try {
      const { topics } = await admin.fetchTopicMetadata({ topics: [...names] });
      const small = topics.find(({ partitions }) => partitions.length < atLeast);
      if (small !== undefined)
        throw new Error(`${small.name} has fewer than ${atLeast} partitions`);
      await Promise.all(names.map((name) => admin.fetchTopicOffsets(name)));
      return new Map(topics.map(({ name, partitions }) => [name, partitions.length]));
    } catch (error) {
      if (attempt >= READY_TRIES)
        throw new LogError("log_unavailable", "the topics do not become ready", { cause: error });
      await new Promise((resolve) => setTimeout(resolve, READY_RETRY_MS));
    }
  }
}

async function checkSettings(
  admin: Admin,
  specs: readonly {
    readonly name: string;
    readonly settings: Readonly<Record<string, string>>;
  }[],
  logger: Logger,
): Promise<void> {
  const resources = await describeTopics(
    admin,
    specs.map(({ name, settings }) => ({ name, keys: Object.keys(settings) })),
  );
  const fatal: FatalSetting[] = [];
  for (const { name, settings } of specs) {
    const entries =
      resources.find((resource) => resource.resourceName === name)?.configEntries ?? [];
    for (const [key, wanted] of Object.entries(settings)) {
      const actual = entries.find((entry) => entry.configName === key)?.configValue;
      if (actual === undefined || actual === wanted || isMoreGenerous(key, actual, wanted))
        continue;
      if (FATAL_SETTINGS.has(key)) fatal.push({ name, key, actual, wanted });
      else logger.warn({ topic: name, setting: key, actual, wanted }, "log.topic_setting_differs");
    }
  }
  const [first] = fatal;
  if (first === undefined) return;
  // All that are set alike, so that they can be mended in one go.
  const alike = fatal.filter(
    ({ name, key, wanted }) => name !== first.name && key === first.key && wanted === first.wanted,
  );
  const others =
    alike.length === 0 ? "" : `, also that of ${alike.map(({ name }) => name).join(", ")}`;
  throw new LogError(
    "log_unavailable",
    `topic ${first.name} has ${first.key}=${first.actual}: set it to ${first.wanted}${others}`,
  );
}

interface FatalSetting {
  readonly name: string;
  readonly key: string;
  readonly actual: string;
  readonly wanted: string;
}

function isMoreGenerous(key: string, actual: string, wanted: string): boolean {
  switch (key) {
    case "retention.ms":
      return actual === "-1" || Number(actual) >= Number(wanted);
    case "compression.type":
      return READABLE_COMPRESSIONS.has(actual);
    case "segment.bytes":
      return Number(actual) <= Number(wanted);
    case "cleanup.policy":
    case "retention.bytes":
      return false;
    default:
      return Number(actual) >= Number(wanted);
  }
}

/** The topics' settings of these keys, as the brokers have them. */
async function describeTopics(
  admin: Admin,
  topics: readonly { readonly name: string; readonly keys: string[] }[],
) {
  const { resources } = await admin.describeConfigs({
    includeSynonyms: false,
    resources: topics.map(({ name, keys }) => ({
      type: ConfigResourceTypes.TOPIC,
      name,
      configNames: keys,
    })),
  });
  return resources;
}
