import type { Admin, ConfigResourceTypes as ResourceType } from "kafkajs";
import { LogError } from "../../domain/log.ts";
import type { Logger } from "../../domain/logger.ts";
import { toError } from "../../domain/thrown.ts";
import { ConfigResourceTypes } from "./kafkajs.ts";
import { isNotAuthorized } from "./missing-right.ts";

/** Compressions that the client can read; a broker that is set to another one recompresses whatever it is sent. */
const READABLE_COMPRESSIONS: ReadonlySet<string> = new Set(["producer", "uncompressed", "gzip"]);
/** Settings that lose records, or have them refused, if they differ. Retention does so where it is short: see `isFatal`. */
const FATAL_SETTINGS: ReadonlySet<string> = new Set([
  "max.message.bytes",
  "cleanup.policy",
  "compression.type",
]);

/** Warns of topics with too few replicas: they keep the ones they were made with, however many brokers there are now. */
export function checkReplicas(
  topics: readonly { readonly name: string; readonly replicas: number }[],
  wanted: number,
  logger: Logger,
): void {
  const few = topics.filter(({ replicas }) => replicas < wanted);
  if (few.length === 0) return;
  const replicas = Math.min(...few.map((topic) => topic.replicas));
  logger.warn(
    {
      topics: few.map(({ name }) => name),
      replicas,
      wanted,
      mend: `reassign their partitions to ${wanted} brokers each (kafka-reassign-partitions), or set RELAY_REPLICATION_FACTOR to ${replicas}`,
    },
    "log.topic_replicas_differ",
  );
}

/** What brokers take in one request unless they are set otherwise (`socket.request.max.bytes`). */
const DEFAULT_REQUEST_BYTES = 104_857_600;

/**
 * Refuses brokers that take the largest batch as a message, but not the request that holds it: they close the connection, on which other
 * batches are under way. Asks only where the default is too little.
 * @throws {LogError} `log_unavailable`, saying what to change
 */
export async function checkRequestSize(admin: Admin, batchBytes: number): Promise<void> {
  if (batchBytes <= DEFAULT_REQUEST_BYTES) return;
  const key = "socket.request.max.bytes";
  const { brokers } = await admin.describeCluster();
  const named = brokers.map(({ nodeId }) => ({ name: String(nodeId), keys: [key] }));
  const resources = await describe(admin, ConfigResourceTypes.BROKER, named).catch(
    (error: unknown) => {
      // The relay needs no rights on the cluster but this one.
      if (isNotAuthorized(toError(error))) return [];
      throw error;
    },
  );
  for (const { resourceName, configEntries } of resources) {
    const actual = valueOf(configEntries, key);
    if (isUntold(actual) || Number(actual) >= batchBytes) continue;
    throw new LogError(
      "log_unavailable",
      `broker ${resourceName} has ${key}=${actual}: set it to ${batchBytes}, or set RELAY_MAX_PAYLOAD_BYTES to ${batchBytes - Number(actual)} less`,
    );
  }
}

/** A topic as it is, and what it must be. */
export interface TopicSpec {
  readonly name: string;
  /** Of the partition that has the fewest. */
  readonly replicas: number;
  readonly settings: Readonly<Record<string, string>>;
  /** How long records may have to wait there even if all goes well. */
  readonly minRetentionMs: number;
}

/**
 * Compares the topics' settings with what they must be.
 * @throws {LogError} `log_unavailable`, saying what to change, if records would be lost or refused; other differences are only logged
 */
export async function checkSettings(
  admin: Admin,
  specs: readonly TopicSpec[],
  logger: Logger,
): Promise<void> {
  const resources = await describeTopics(
    admin,
    specs.map(({ name, settings }) => ({ name, keys: Object.keys(settings) })),
  );
  const fatal: FatalSetting[] = [];
  for (const spec of specs) {
    const { name, settings } = spec;
    const entries =
      resources.find((resource) => resource.resourceName === name)?.configEntries ?? [];
    for (const [key, wanted] of Object.entries(settings)) {
      const actual = valueOf(entries, key);
      if (isUntold(actual) || actual === wanted) continue;
      if (isMoreGenerous(key, actual, wanted, spec)) continue;
      if (isFatal(key, actual, spec)) fatal.push({ name, key, actual, wanted });
      else logger.warn({ topic: name, setting: key, actual, wanted }, "log.topic_setting_differs");
    }
  }
  const [first] = fatal;
  if (first === undefined) return;
  // All with the same setting to change, so that they can be fixed in one go.
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

/** Brokers keep some values to themselves. */
function isUntold(value: string | null | undefined): value is null | undefined | "" {
  return value === undefined || value === null || value === "";
}

function isFatal(key: string, actual: string, spec: TopicSpec): boolean {
  switch (key) {
    // More of them are asked to confirm a record than there are: none is ever taken.
    case "min.insync.replicas":
      return Number(actual) > spec.replicas;
    case "retention.ms":
      return Number(actual) < spec.minRetentionMs;
    case "retention.bytes":
      return spec.minRetentionMs > 0;
    default:
      return FATAL_SETTINGS.has(key);
  }
}

function isMoreGenerous(key: string, actual: string, wanted: string, spec: TopicSpec): boolean {
  switch (key) {
    case "min.insync.replicas":
      return Number(actual) >= Number(wanted) && Number(actual) <= spec.replicas;
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

interface Named {
  readonly name: string;
  readonly keys: string[];
}

/** Returns the topics' settings of these keys, as the brokers have them. */
export function describeTopics(admin: Admin, topics: readonly Named[]) {
  return describe(admin, ConfigResourceTypes.TOPIC, topics);
}

async function describe(admin: Admin, type: ResourceType, named: readonly Named[]) {
  const { resources } = await admin.describeConfigs({
    includeSynonyms: false,
    resources: named.map(({ name, keys }) => ({ type, name, configNames: keys })),
  });
  return resources;
}

type Resource = Awaited<ReturnType<typeof describe>>[number];

function valueOf(entries: Resource["configEntries"], key: string): string | undefined {
  return entries.find((entry) => entry.configName === key)?.configValue;
}
