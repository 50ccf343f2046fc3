import type { Admin } from "kafkajs";
import { describe, expect, test } from "vitest";
import { ensureTopics } from "../../../src/adapters/kafka/ensure-topics.ts";
import { ConfigResourceTypes } from "../../../src/adapters/kafka/kafkajs.ts";
import type { KafkaLogOptions } from "../../../src/adapters/kafka/kafka-options.ts";
import { topicSettings } from "../../../src/adapters/kafka/topic-settings.ts";
import { TOPICS, type Topic } from "../../../src/domain/log.ts";
import { makeSilentLogger } from "../../support/silent-logger.ts";

const DAY_MS = 86_400_000;
const HOUR_MS = 3_600_000;
const WEEK = String(7 * DAY_MS);

type Changes = Partial<Record<Topic, Readonly<Record<string, string | null>>>>;

const optionsOf = (retentionDays: number): KafkaLogOptions => ({
  connection: { brokers: ["b:9092"], clientId: "t" },
  topicPrefix: "",
  partitions: 1,
  replicationFactor: 1,
  maxRecordBytes: 1_000,
  retentionMs: retentionDays * DAY_MS,
  logger: makeSilentLogger(),
});

/** Brokers that have all topics as a relay with this retention made them, but for what was changed since. */
function brokersWith(madeFor: KafkaLogOptions, changes: Changes, replicas = [1]): Admin {
  const admin: Partial<Admin> = {
    listTopics: async () => [...TOPICS],
    describeCluster: async () => ({ brokers: [{}], controller: 1, clusterId: "c" }) as never,
    fetchTopicMetadata: async () =>
      ({
        topics: TOPICS.map((name) => ({
          name,
          partitions: [{ partitionId: 0, leader: 1, replicas }],
        })),
      }) as never,
    describeConfigs: async () =>
      ({
        resources: TOPICS.map((topic) => ({
          resourceName: topic,
          configEntries: Object.entries({
            ...topicSettings(topic, 1, madeFor),
            ...changes[topic],
          }).map(([configName, configValue]) => ({ configName, configValue })),
        })),
      }) as never,
  };
  return admin as Admin;
}

/** Returns why the start is refused, or what it warns of: `topic setting`. */
async function start(changes: Changes, days = { made: 30, now: 30 }) {
  const warnings: unknown[] = [];
  const logger = makeSilentLogger((level, message, fields) => {
    const { topic, setting } = fields as { readonly topic: string; readonly setting: string };
    if (level === "warn") warnings.push(`${message} ${topic} ${setting}`);
  });
  const refusal = await ensureTopics(brokersWith(optionsOf(days.made), changes), {
    ...optionsOf(days.now),
    logger,
  }).then(
    () => null,
    (error: Error) => error.message,
  );
  return { refusal, warnings };
}

test.each<[string, Changes, string]>([
  [
    "a delay tier for a shorter time than its delay",
    { "delay-4h": { "retention.ms": String(HOUR_MS) } },
    `topic delay-4h has retention.ms=${HOUR_MS}: set it to ${WEEK}`,
  ],
  [
    "several of them",
    {
      "delay-1h": { "retention.ms": "60000" },
      "delay-4h": { "retention.ms": "60000" },
    },
    `topic delay-1h has retention.ms=60000: set it to ${WEEK}, also that of delay-4h`,
  ],
  [
    "so many bytes of a delay tier",
    { "delay-1s": { "retention.bytes": "1000000" } },
    "topic delay-1s has retention.bytes=1000000: set it to -1",
  ],
  [
    "held tasks for less than the retention",
    { held: { "retention.ms": String(3 * DAY_MS) } },
    `topic held has retention.ms=${3 * DAY_MS}: set it to ${37 * DAY_MS}`,
  ],
  [
    "work compressed as the relay cannot read it",
    { events: { "compression.type": "zstd" } },
    "topic events has compression.type=zstd: set it to producer",
  ],
  [
    "not every key of the limits",
    { limits: { "cleanup.policy": "delete" } },
    "topic limits has cleanup.policy=delete: set it to compact",
  ],
  [
    "so many bytes of held tasks",
    { held: { "retention.bytes": "1000000" } },
    "topic held has retention.bytes=1000000: set it to -1",
  ],
])(
  "regression: brokers that keep %s are refused at the start, with what to set: what waited there was lost without a word",
  async (_, changes, refusal) => {
    expect(await start(changes)).toMatchObject({ refusal });
  },
);

test("regression: a topic that wants more replicas in sync than it has is refused at the start: no append to it was ever taken, and nothing said why", async () => {
  const changes = { events: { "min.insync.replicas": "2" } };
  const refusal = "topic events has min.insync.replicas=2: set it to 1";
  expect(await start(changes)).toMatchObject({ refusal });
});

test("a topic with more replicas than the relay asks for may want more of them in sync", async () => {
  const options = optionsOf(30);
  const brokers = brokersWith(options, { events: { "min.insync.replicas": "2" } }, [1, 2]);
  await expect(ensureTopics(brokers, options)).resolves.toBeUndefined();
});

test.each<[string, Changes, string]>([
  [
    "keep a delay tier for its delay, but not for a week",
    { "delay-1h": { "retention.ms": String(HOUR_MS) } },
    "delay-1h retention.ms",
  ],
  ["keep work for less than a week", { events: { "retention.ms": "8000" } }, "events retention.ms"],
  [
    "keep so many bytes of work",
    { attempts: { "retention.bytes": "1000000" } },
    "attempts retention.bytes",
  ],
  [
    "stamp the records of a delay tier by their own clock",
    { "delay-1m": { "message.timestamp.type": "LogAppendTime" } },
    "delay-1m message.timestamp.type",
  ],
])("brokers that %s are warned of", async (_, changes, warning) => {
  expect(await start(changes)).toEqual({
    refusal: null,
    warnings: [`log.topic_setting_differs ${warning}`],
  });
});

test.each<[string, Changes]>([
  ["as the relay made them", {}],
  [
    "that keep all for ever",
    { "delay-4h": { "retention.ms": "-1" }, held: { "retention.ms": "-1" } },
  ],
  [
    "whose brokers keep their settings to themselves",
    { "delay-4h": { "retention.ms": null, "retention.bytes": "" }, held: { "retention.ms": "" } },
  ],
  [
    "that are compressed as the relay can read it, in smaller segments",
    { events: { "compression.type": "gzip" }, limits: { "segment.bytes": "1048576" } },
  ],
])("topics %s pass", async (_, changes) => {
  expect(await start(changes)).toEqual({ refusal: null, warnings: [] });
});

test.each([
  [1, 3_650, ["log.topic_setting_differs held retention.ms"]],
  [3_650, 1, []],
])(
  "topics that the relay made for a retention of %i days pass with one of %i",
  async (made, now, warnings) => {
    expect(await start({}, { made, now })).toEqual({ refusal: null, warnings });
  },
);

test("regression: a start that finds new topics without leaders says which and what to do: only that topics do not become ready", async () => {
  const options = optionsOf(30);
  const admin = {
    ...brokersWith(options, {}),
    listTopics: async () => [],
    createTopics: async () => true,
    fetchTopicMetadata: async () =>
      ({
        topics: TOPICS.map((name) => ({
          name,
          partitions: [{ partitionId: 0, leader: name === "events" ? -1 : 1, replicas: [1] }],
        })),
      }) as never,
    fetchTopicOffsets: async () => [],
  };
  await expect(ensureTopics(admin, options)).rejects.toThrow(
    /events.*has no leader.*start again once the brokers have caught up/,
  );
}, 30_000);

describe("the largest webhook that may be set", () => {
  const options = { ...optionsOf(30), maxRecordBytes: 101 * 1024 * 1024 };
  const needed = 102 * 1024 * 1024;
  const askForBroker = (describeBroker: () => Promise<unknown>) => {
    const topics = brokersWith(options, {});
    const admin: Partial<Admin> = {
      ...topics,
      describeCluster: async () =>
        ({ brokers: [{ nodeId: 7 }], controller: 7, clusterId: "c" }) as never,
      describeConfigs: async (asked) =>
        asked.resources[0]?.type === ConfigResourceTypes.BROKER
          ? ((await describeBroker()) as never)
          : topics.describeConfigs(asked),
    };
    return ensureTopics(admin as Admin, options);
  };
  const taking = (value: string) => async () => ({
    resources: [
      {
        resourceName: "7",
        configEntries: [{ configName: "socket.request.max.bytes", configValue: value }],
      },
    ],
  });

  test("regression: is refused at the start where brokers take no request of that size: each one cut their connections, for half a minute", async () => {
    await expect(askForBroker(taking("104857600"))).rejects.toThrow(
      `broker 7 has socket.request.max.bytes=104857600: set it to ${needed}, or set RELAY_MAX_PAYLOAD_BYTES to 2097152 less`,
    );
  });

  test.each([
    ["take it", taking(String(needed))],
    ["keep their settings to themselves", taking("")],
    [
      "do not let the relay ask",
      async () => {
        throw Object.assign(new Error("Cluster authorization failed"), {
          type: "CLUSTER_AUTHORIZATION_FAILED",
        });
      },
    ],
  ])("passes where brokers %s", async (_, describeBroker) => {
    await expect(askForBroker(describeBroker)).resolves.toBeUndefined();
  });

  test("ends the start when brokers cannot be asked for another reason", async () => {
    const broken = async () => {
      throw new Error("no leader");
    };
    await expect(askForBroker(broken)).rejects.toThrow("no leader");
  });
});
