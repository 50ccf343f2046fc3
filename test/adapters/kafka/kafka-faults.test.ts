import { rmSync } from "node:fs";
import { join } from "node:path";
import { afterAll, afterEach, describe, expect, test } from "vitest";
import { DELAY_TIERS } from "../../../src/domain/delay-tier.ts";
import {
  TOPICS,
  type Log,
  type LogError,
  type LogRecord,
  type NewRecord,
  type OwnedPartition,
} from "../../../src/domain/log.ts";
import { ConfigResourceTypes, Kafka, logLevel } from "../../../src/adapters/kafka/kafkajs.ts";
import { openKafkaLog } from "../../../src/adapters/kafka/kafka-log.ts";
import { startLocalKafka, type LocalKafka } from "../../support/stores/kafka-local.ts";
import { freshPrefix, openTestKafkaLog, quietLogger } from "../../support/stores/kafka-harness.ts";
import { skipOrFail } from "../../support/stores/skip-or-fail.ts";
import { makeSilentLogger } from "../../support/silent-logger.ts";
import { waitFor, until } from "../../support/wait-for.ts";
import { makeSeededRandom } from "../../faults/harness/random.ts";
import { startTcpProxy } from "../../faults/harness/tcp-proxy.ts";

interface TestAdmin extends AsyncDisposable {
  /** Replaces all settings that differ from the defaults. */
  setOfTopic(name: string, settings: Readonly<Record<string, string>>): Promise<void>;
  setOfBroker(id: number, settings: Readonly<Record<string, string>>): Promise<void>;
  ofTopic(name: string): Promise<Readonly<Record<string, string>>>;
  deleteTopic(name: string): Promise<void>;
  growTopic(name: string, partitions: number): Promise<void>;
  /** Deletes the first records of partition 0, as retention does. */
  deleteBefore(offset: number, name: string): Promise<void>;
}

async function connectAdmin(brokers: readonly string[]): Promise<TestAdmin> {
  const admin = new Kafka({ brokers: [...brokers], logLevel: logLevel.NOTHING }).admin();
  await admin.connect();
  const set = async (
    type: (typeof ConfigResourceTypes)["TOPIC" | "BROKER"],
    name: string,
    settings: Readonly<Record<string, string>>,
  ): Promise<void> => {
    const configEntries = Object.entries(settings).map(([key, value]) => ({ name: key, value }));
    await admin.alterConfigs({ validateOnly: false, resources: [{ type, name, configEntries }] });
  };
  return {
    setOfTopic: (name, settings) => set(ConfigResourceTypes.TOPIC, name, settings),
    setOfBroker: (id, settings) => set(ConfigResourceTypes.BROKER, String(id), settings),
    ofTopic: async (name) => {
      const { resources } = await admin.describeConfigs({
        includeSynonyms: false,
        resources: [{ type: ConfigResourceTypes.TOPIC, name }],
      });
      const entries = resources[0]?.configEntries ?? [];
      return Object.fromEntries(
        entries.map(({ configName, configValue }) => [configName, configValue]),
      );
    },
    deleteTopic: (name) => admin.deleteTopics({ topics: [name] }),
    growTopic: async (name, partitions) => {
      await admin.createPartitions({ topicPartitions: [{ topic: name, count: partitions }] });
    },
    deleteBefore: async (offset, name) => {
      // Its leader must be known first.
      await admin.fetchTopicOffsets(name);
      const partitions = [{ partition: 0, offset: String(offset) }];
      await admin.deleteTopicRecords({ topic: name, partitions });
    },
    [Symbol.asyncDispose]: () => admin.disconnect(),
  };
}

// These faults need their own broker, which is killed and frozen.
const started: LocalKafka | Error = await startLocalKafka(1).catch((error: Error) => error);
const DEADLINE_MS = 60_000;
/** Far above the three seconds after which an append is refused, and far below what the client would try for by itself. */
const REFUSED_WITHIN_MS = 20_000;

describe.skipIf(started instanceof Error && skipOrFail("a local Kafka broker", started))(
  "the Kafka log when things break",
  { timeout: DEADLINE_MS * 2 },
  () => {
    const kafka = started as LocalKafka;
    const stack: AsyncDisposable[] = [];
    afterEach(async () => {
      while (stack.length > 0) await stack.pop()?.[Symbol.asyncDispose]();
    });
    afterAll(() => kafka[Symbol.asyncDispose]());
    const own = <T extends AsyncDisposable>(resource: T): T => {
      stack.push(resource);
      return resource;
    };
    /** Collects the events that a group gets, as they come. */
    const consumed = async (log: Log): Promise<readonly LogRecord[]> => {
      const seen: LogRecord[] = [];
      own(
        await log.consume({
          group: "g",
          topics: ["events"],
          onAssigned: async () => {},
          onRevoked: async () => {},
          onRecords: (_partition, _topic, records) => void seen.push(...records),
          onError: () => {},
        }),
      );
      return seen;
    };
    const rec = (text: string, partition = 0) =>
      ({ topic: "events", key: "k", partition, value: Buffer.from(text) }) as const;
    /** Appends, and returns whether the log took it. */
    const takes = (log: Log, record: NewRecord): Promise<boolean> =>
      log.append([record]).then(
        () => true,
        () => false,
      );

    test("broker away: appends are refused soon, with bounded memory, and both ways work again when it is back", async () => {
      const log = own(await openTestKafkaLog(kafka.brokers, { maxQueuedBytes: 1_000_000 }));
      const seen = await consumed(log);
      await log.append([rec("before")]);
      await until(() => seen.length === 1, "the consumer flows", DEADLINE_MS);

      await kafka.kill(1);
      const codes = new Map<string, number>();
      let slowestMs = 0;
      for (let round = 0; round < 3; round += 1) {
        await Promise.all(
          Array.from({ length: 50 }, async () => {
            const startedMs = performance.now();
            const error: LogError | null = await log.append([rec("x".repeat(50_000))]).then(
              () => null,
              (failure: LogError) => failure,
            );
            slowestMs = Math.max(slowestMs, performance.now() - startedMs);
            codes.set(error?.code ?? "accepted", (codes.get(error?.code ?? "accepted") ?? 0) + 1);
          }),
        );
      }
      // An append sent on a connection not yet known to be closed may have been written, and reports so.
      codes.delete("log_outcome_unknown");
      expect([...codes.keys()].toSorted()).toEqual(["log_full", "log_unavailable"]);
      expect(slowestMs).toBeLessThan(REFUSED_WITHIN_MS);
      await kafka.restart(1);
      await waitFor("a record that is taken", () => takes(log, rec("after")), DEADLINE_MS);
      await until(
        () => seen.some((record) => Buffer.from(record.value).toString() === "after"),
        "the consumer flows again",
        DEADLINE_MS,
      );
    });

    test("regression: a log that is lost with its disk under its owner is read from its new end: the owner asked for what was not there hundreds of times a second, and read nothing more", async () => {
      const topicPrefix = freshPrefix();
      const name = `${topicPrefix}events`;
      // A session so long that the group still knows its member when the broker is back.
      const log = own(
        await openTestKafkaLog(kafka.brokers, { topicPrefix, sessionTimeoutMs: DEADLINE_MS }),
      );
      const seen: LogRecord[] = [];
      const errors: string[] = [];
      const owned = new Map<number, OwnedPartition>();
      own(
        await log.consume({
          group: "g",
          topics: ["events"],
          onAssigned: async (partition) => void owned.set(partition.partition, partition),
          onRevoked: async () => {},
          onRecords: (_partition, _topic, records) => void seen.push(...records),
          onError: ({ message }) => void errors.push(message),
        }),
      );
      await log.append([rec("1"), rec("2"), rec("3")]);
      await until(() => seen.length === 3, "the consumer flows", DEADLINE_MS);
      const before = owned.get(0)!;
      await before.commit([{ topic: "events", offset: 3, metadata: "m" }]);

      await kafka.kill(1);
      rmSync(join(kafka.dataDir(1), `${name}-0`), { recursive: true });
      await kafka.restart(1);
      await until(() => owned.get(0) !== before, "the next owner", DEADLINE_MS);
      expect(owned.get(0)!.committed("events")).toEqual({ offset: 0, metadata: "m" });
      await waitFor("a record that is taken", () => takes(log, rec("new")), DEADLINE_MS);
      await until(() => seen.length > 3, "the new record", DEADLINE_MS);
      // A broker that is away for some ten seconds ends the consumer: once started again, it goes by the new end from the beginning.
      const told = errors.filter((message) => message.startsWith(`${name}/0 ends at 0`));
      expect(told.length).toBeLessThanOrEqual(1);
    });

    test("regression: what retention deleted before its group had read it is told of once, from a stop or under a running owner: it was skipped without a word", async () => {
      const topicPrefix = freshPrefix();
      const name = `${topicPrefix}events`;
      const told: object[] = [];
      const counted: unknown[] = [];
      const logger = makeSilentLogger((_level, message, fields) => {
        if (message === "log.records_lost") told.push(fields);
      });
      const metrics = { lost: (...lost: unknown[]) => void counted.push(lost) };
      const log = own(await openTestKafkaLog(kafka.brokers, { topicPrefix, logger, metrics }));
      await using admin = await connectAdmin(kafka.brokers);
      const seen: number[] = [];
      let owner: OwnedPartition | undefined;
      let isRefusing = false;
      const consume = () =>
        log.consume({
          group: "g",
          topics: ["events"],
          onAssigned: async (partition) => void (partition.partition === 0 && (owner = partition)),
          onRevoked: async () => {},
          onRecords: (_partition, _topic, records) => {
            if (isRefusing) throw new Error("not now");
            seen.push(...records.map(({ offset }) => offset));
          },
          onError: () => {},
        });
      const first = await consume();
      await log.append([rec("0"), rec("1"), rec("2")]);
      await until(() => seen.length === 3, "the consumer flows", DEADLINE_MS);
      await owner!.commit([{ topic: "events", offset: 3, metadata: "m" }]);
      await first[Symbol.asyncDispose]();

      await log.append([rec("3"), rec("4")]);
      await admin.deleteBefore(5, name);
      owner = undefined;
      const second = await consume();
      await until(() => told.length > 0, "what is lost from a stop", DEADLINE_MS);
      await until(() => owner !== undefined, "the next owner", DEADLINE_MS);
      expect(owner!.committed("events")).toEqual({ offset: 5, metadata: "m" });
      await second[Symbol.asyncDispose]();
      owner = undefined;
      own(await consume());
      await until(() => owner !== undefined, "the owner after", DEADLINE_MS);

      isRefusing = true;
      await log.append([rec("5"), rec("6")]);
      await admin.deleteBefore(7, name);
      await until(() => told.length > 1, "what is lost under its owner", DEADLINE_MS);
      isRefusing = false;
      await log.append([rec("7")]);
      await until(() => seen.includes(7), "what comes after", DEADLINE_MS);
      const why = "retention or compaction has deleted them, or they went with a broker's disk";
      const place = { group: "g", topic: "events", partition: 0 };
      expect(told).toEqual([
        { ...place, from: 3, to: 5, count: 2, why },
        { ...place, from: 5, to: 7, count: 2, why },
      ]);
      expect(counted).toEqual([
        ["events", 2],
        ["events", 2],
      ]);
    });

    test("regression: what compaction took out of a work topic is told of: four of five retries were gone, without a word", async () => {
      const topicPrefix = freshPrefix();
      const name = `${topicPrefix}events`;
      const told: { readonly count: number }[] = [];
      const logger = makeSilentLogger((_level, message, fields) => {
        if (message === "log.records_lost") told.push(fields as { readonly count: number });
      });
      const log = own(await openTestKafkaLog(kafka.brokers, { topicPrefix, logger }));
      await using admin = await connectAdmin(kafka.brokers);
      await admin.setOfBroker(1, { "log.cleaner.backoff.ms": "100" });
      try {
        await log.append(Array.from({ length: 20 }, (_, index) => rec(String(index))));
        await admin.setOfTopic(name, {
          "cleanup.policy": "compact",
          "min.cleanable.dirty.ratio": "0.01",
          "segment.ms": "100",
        });
        let appended = 20;
        // A segment ends with the first record that comes after its time, and only those that have ended are compacted.
        const isCompacted = async () => {
          appended += (await log.append([rec("later")])).length;
          const seen: number[] = [];
          await using _ = await log.consume({
            group: `g${appended}`,
            topics: ["events"],
            onAssigned: async () => {},
            onRevoked: async () => {},
            onRecords: (_partition, _topic, records) =>
              void seen.push(...records.map(({ offset }) => offset)),
            onError: () => {},
          });
          await until(() => seen.includes(appended - 1), "the last record", DEADLINE_MS);
          if (seen.length === appended) return false;
          expect(told.reduce((sum, { count }) => sum + count, seen.length)).toBe(appended);
          return true;
        };
        await waitFor("compaction", isCompacted, DEADLINE_MS, 200);
      } finally {
        await admin.setOfBroker(1, {});
      }
    });

    test("a broker that freezes: what may have been written is soon told as unknown", async () => {
      const log = own(await openTestKafkaLog(kafka.brokers));
      await log.append([rec("before")]);
      kafka.freeze(1);
      try {
        // On a busy machine it takes a moment to stop, and answers until then.
        let startedMs = 0;
        const refused = async (): Promise<LogError | null> => {
          startedMs = performance.now();
          return log.append([rec("x")]).then(
            () => null,
            (failure: LogError) => failure,
          );
        };
        expect(await waitFor("a refused append", refused, DEADLINE_MS)).toMatchObject({
          code: expect.stringMatching(/^log_(outcome_unknown|unavailable)$/) as string,
          retryable: true,
        });
        expect(performance.now() - startedMs).toBeLessThan(REFUSED_WITHIN_MS);
      } finally {
        kafka.thaw(1);
      }
      const backMs = performance.now() + DEADLINE_MS;
      for (;;) {
        const done = await log.append([rec("y")]).then(
          () => true,
          () => false,
        );
        if (done) break;
        expect(performance.now()).toBeLessThan(backMs);
      }
    });

    test("an owner that was frozen past its session says so on waking, before anything tells it", async () => {
      let skippedMs = 0;
      const log = own(
        await openTestKafkaLog(kafka.brokers, { monotonic: () => performance.now() + skippedMs }),
      );
      const owned: OwnedPartition[] = [];
      const revoked: OwnedPartition[] = [];
      own(
        await log.consume({
          group: "g",
          topics: ["events"],
          onAssigned: async (partition) => void owned.push(partition),
          onRevoked: async (partition) => void revoked.push(partition),
          onRecords: () => {},
          onError: () => {},
        }),
      );
      await until(() => owned.length === 4, "assignment", DEADLINE_MS);
      expect(owned.every((partition) => partition.owned())).toBe(true);
      skippedMs = 6_001;
      expect(owned.some((partition) => partition.owned())).toBe(false);
      expect(revoked).toEqual([]);
      // The broker never dropped the member, as the next heartbeat proves.
      await until(() => owned.every((partition) => partition.owned()), "a heartbeat", DEADLINE_MS);
    });

    test("partitions that are added while it runs are appended to, and assigned to owners that know of all", async () => {
      const topicPrefix = freshPrefix();
      const log = own(
        await openTestKafkaLog(kafka.brokers, {
          topicPrefix,
          partitions: 2,
          metadataMaxAgeMs: 500,
        }),
      );
      const held = new Set<number>();
      const seen: LogRecord[] = [];
      const unaware: number[] = [];
      own(
        await log.consume({
          group: "g",
          topics: ["events"],
          onAssigned: async ({ partition }) => {
            held.add(partition);
            if (log.partitions <= partition) unaware.push(partition);
          },
          onRevoked: async ({ partition }) => void held.delete(partition),
          onRecords: (_partition, _topic, records) => void seen.push(...records),
          onError: () => {},
        }),
      );
      await until(() => held.size === 2, "assignment", DEADLINE_MS);
      const grown = own(await openTestKafkaLog(kafka.brokers, { topicPrefix, partitions: 5 }));
      expect(grown.partitions).toBe(5);
      await until(() => log.partitions === 5, "the running log sees it", DEADLINE_MS);
      await until(() => held.size === 5, "the group owns them", DEADLINE_MS);
      expect(unaware).toEqual([]);
      await log.append([rec("new", 4)]);
      await until(() => seen.some(({ partition }) => partition === 4), "the record", DEADLINE_MS);
    });

    test("regression: all who own partitions at a time go by the same number of them, however early one learns of more: an endpoint was at home in two places", async () => {
      const topicPrefix = freshPrefix();
      const held = new Map<OwnedPartition, number>();
      const disagreed: number[][] = [];
      // The first learns of new partitions within half a second; alone, the other would only within a minute.
      for (const metadataMaxAgeMs of [500, 60_000]) {
        const log = own(
          await openTestKafkaLog(kafka.brokers, { topicPrefix, partitions: 2, metadataMaxAgeMs }),
        );
        own(
          await log.consume({
            group: "g",
            topics: ["events"],
            onAssigned: async (partition) => {
              held.set(partition, partition.partitions);
              const counts = new Set(held.values());
              if (counts.size > 1) disagreed.push([...counts]);
            },
            onRevoked: async (partition) => void held.delete(partition),
            onRecords: () => {},
            onError: () => {},
          }),
        );
      }
      await until(() => held.size === 2, "assignment", DEADLINE_MS);
      expect([...held.values()]).toEqual([2, 2]);
      own(await openTestKafkaLog(kafka.brokers, { topicPrefix, partitions: 5 }));
      await until(() => held.size === 5, "the group owns them", DEADLINE_MS);
      expect([...held.values()]).toEqual([5, 5, 5, 5, 5]);
      expect(disagreed).toEqual([]);
    });

    test("topics that were deleted while it runs are named, and what to do: the broker's error named none", async () => {
      const topicPrefix = freshPrefix();
      const told: object[] = [];
      const logger = makeSilentLogger((_, message, fields) => {
        if (message === "log.topics_missing") told.push(fields);
      });
      const options = { topicPrefix, metadataMaxAgeMs: 300, logger };
      own(await openTestKafkaLog(kafka.brokers, options));
      await using admin = await connectAdmin(kafka.brokers);
      await admin.deleteTopic(`${topicPrefix}limits`);
      await until(() => told.length > 0, "the line", DEADLINE_MS);
      expect(told[0]).toMatchObject({
        topics: [`${topicPrefix}limits`],
        mend: expect.stringContaining("start"),
      });
    });

    test("a topic that was grown by hand is told of, with what to do, until the others have grown too: the log only said that offsets were missing", async () => {
      const topicPrefix = freshPrefix();
      const told: object[] = [];
      const logger = makeSilentLogger((_, message, fields) => {
        if (message === "log.partitions_uneven") told.push(fields);
      });
      const options = { topicPrefix, partitions: 2, metadataMaxAgeMs: 300, logger };
      const log = own(await openTestKafkaLog(kafka.brokers, options));
      await using admin = await connectAdmin(kafka.brokers);
      await admin.growTopic(`${topicPrefix}events`, 3);
      await until(() => told.length > 0, "the line", DEADLINE_MS);
      const others = TOPICS.filter((topic) => topic !== "events");
      const { topics, mend } = told[0] as { topics: string[]; mend: string };
      expect(topics.toSorted()).toEqual(others.map((topic) => topicPrefix + topic).toSorted());
      expect(mend).toContain("start any process");
      own(await openTestKafkaLog(kafka.brokers, { topicPrefix, partitions: 2 }));
      await until(() => log.partitions === 3, "as many partitions everywhere", DEADLINE_MS);
    });

    test("what is asked of a log that was closed opens no connection that would hold the process", async () => {
      const sockets = () =>
        process.getActiveResourcesInfo().filter((name) => name === "TCPSocketWrap").length;
      await until(() => sockets() === 0, "no sockets of earlier tests", DEADLINE_MS);
      const log = await openTestKafkaLog(kafka.brokers);
      const owned: OwnedPartition[] = [];
      const consumer = await log.consume({
        group: "g",
        topics: ["events"],
        onAssigned: async (partition) => void owned.push(partition),
        onRevoked: async () => {},
        onRecords: () => {},
        onError: () => {},
      });
      await until(() => owned.length === 4, "assignment", DEADLINE_MS);
      expect(sockets()).toBeGreaterThan(0);
      await log[Symbol.asyncDispose]();
      await expect(owned[0]?.endOffset("events")).rejects.toMatchObject({ code: "log_closed" });
      await Promise.allSettled([consumer.lag()]);
      await until(() => sockets() === 0, "no socket", DEADLINE_MS);
    });

    test("regression: a partition that does not take records fails these only: the others were written again and again, and failed with them", async () => {
      const topicPrefix = freshPrefix();
      const log = own(await openTestKafkaLog(kafka.brokers, { topicPrefix }));
      const admin = own(await connectAdmin(kafka.brokers));
      const refused = `${topicPrefix}events`;
      const { "max.message.bytes": maxBytes = "" } = await admin.ofTopic(refused);
      const large = rec("x".repeat(2_000));
      const isTaken = () => takes(log, { ...large, partition: 2 });
      await admin.setOfTopic(refused, { "max.message.bytes": "1000" });
      // The controller answers; the broker applies the setting a moment later.
      await waitFor("the smaller limit", async () => !(await isTaken()), DEADLINE_MS);
      const other = { ...rec("taken"), topic: "attempts" } as const;

      const alone = log.append([other]);
      const mixed = log.append([other, large, { ...other, partition: 1 }]);
      await expect(mixed).rejects.toMatchObject({
        code: "log_unavailable",
        message: `${refused}/0 did not take the records (raise its max.message.bytes)`,
        cause: { type: "MESSAGE_TOO_LARGE" },
        appended: [{ partition: 0, offset: 1 }, null, { partition: 1, offset: 0 }],
      });
      expect(await alone).toEqual([{ partition: 0, offset: 0 }]);
      expect(await log.append([other])).toEqual([{ partition: 0, offset: 2 }]);

      await admin.setOfTopic(refused, { "max.message.bytes": maxBytes });
      await waitFor("the former limit", isTaken, DEADLINE_MS);
      expect(await log.append([large])).toEqual([{ partition: 0, offset: 0 }]);
    });

    test("a record over the limit is refused by name, and is not worth repeating", async () => {
      const log = own(await openTestKafkaLog(kafka.brokers, { maxRecordBytes: 1_000 }));
      await expect(log.append([rec("x".repeat(1_001))])).rejects.toMatchObject({
        code: "log_record_too_large",
        retryable: false,
      });
      await log.append([rec("x".repeat(1_000))]);
    });

    test("regression: what was taken when the limit was larger is read and goes on under a smaller one: a retry was refused for good, and all behind it waited", async () => {
      const topicPrefix = freshPrefix();
      const large = { ...rec("x".repeat(12_000_000)), topic: "delay-1s" } as const;
      {
        await using before = await openTestKafkaLog(kafka.brokers, { topicPrefix });
        await before.append([large, { ...rec("behind it"), topic: "delay-1s" }]);
      }
      const log = own(
        await openTestKafkaLog(kafka.brokers, { topicPrefix, maxRecordBytes: 1_000 }),
      );
      const owned: OwnedPartition[] = [];
      const seen: LogRecord[] = [];
      await log.consume({
        group: "g",
        topics: ["delay-1s"],
        onAssigned: async (partition) => void owned.push(partition),
        onRevoked: async () => {},
        onRecords: (_partition, _topic, records) => void seen.push(...records),
        onError: () => {},
      });
      await until(() => seen.length === 2, "both records", DEADLINE_MS);
      expect(seen[0]!.value.byteLength).toBe(12_000_000);
      const home = owned.find(({ partition }) => partition === seen[0]!.partition);
      const { value: batch } = await home!.read("delay-1s", 0)[Symbol.asyncIterator]().next();
      expect(batch?.[0]?.value.byteLength).toBe(12_000_000);
      const moved = seen.map(({ key, value }) => ({ topic: "tasks", key, value }) as const);
      expect(await log.append(moved)).toMatchObject([{ offset: 0 }, { offset: 1 }]);
    });

    test("topics whose limit is raised take larger records from processes that run", async () => {
      const topicPrefix = freshPrefix();
      const log = own(
        await openTestKafkaLog(kafka.brokers, { topicPrefix, maxRecordBytes: 1_000 }),
      );
      await using admin = await connectAdmin(kafka.brokers);
      const large = rec("x".repeat(2_000_000));
      await expect(log.append([large])).rejects.toMatchObject({ code: "log_record_too_large" });
      await admin.setOfTopic(`${topicPrefix}events`, { "max.message.bytes": "4000000" });
      await waitFor("the larger limit", () => takes(log, large), DEADLINE_MS);
    });

    test("topics whose limit is too small for the payloads are refused at start, with what to set", async () => {
      const topicPrefix = freshPrefix();
      await using _small = await openTestKafkaLog(kafka.brokers, {
        topicPrefix,
        maxRecordBytes: 1_000,
      });
      await expect(openTestKafkaLog(kafka.brokers, { topicPrefix })).rejects.toThrow(
        /topic t\w+\.\S+ has max\.message\.bytes=1049576: set it to \d+/,
      );
    });

    test("topics made for smaller payloads are named all at once: each start named the next of thirteen", async () => {
      const topicPrefix = freshPrefix();
      const small = await openTestKafkaLog(kafka.brokers, { topicPrefix, maxRecordBytes: 1_000 });
      await small[Symbol.asyncDispose]();
      const refusal: unknown = await openTestKafkaLog(kafka.brokers, { topicPrefix }).catch(
        (error: unknown) => error,
      );
      for (const topic of TOPICS) expect(String(refusal)).toContain(`${topicPrefix}${topic}`);
    });

    test("topics that the broker compresses in a way that cannot be read are refused at start: webhooks were taken and never delivered", async () => {
      const topicPrefix = freshPrefix();
      await (await openTestKafkaLog(kafka.brokers, { topicPrefix }))[Symbol.asyncDispose]();
      await using admin = await connectAdmin(kafka.brokers);
      for (const [type, opens] of [
        ["gzip", true],
        ["lz4", false],
      ] as const) {
        const topic = `${topicPrefix}events`;
        const settings = { "compression.type": type, "max.message.bytes": "20000000" };
        await admin.setOfTopic(topic, settings);
        const isSet = async () => (await admin.ofTopic(topic))["compression.type"] === type;
        await waitFor("the broker to know the setting", isSet, DEADLINE_MS);
        const opening = openTestKafkaLog(kafka.brokers, { topicPrefix });
        if (opens) own(await opening);
        else
          await expect(opening).rejects.toThrow(
            `topic ${topicPrefix}events has compression.type=lz4: set it to producer`,
          );
      }
    });

    test("topics that keep what waits there for too short a time are refused at start: retries were lost without a word", async () => {
      const topicPrefix = freshPrefix();
      await (await openTestKafkaLog(kafka.brokers, { topicPrefix }))[Symbol.asyncDispose]();
      await using admin = await connectAdmin(kafka.brokers);
      const topic = `${topicPrefix}delay-4h`;
      await admin.setOfTopic(topic, {
        "retention.ms": "3600000",
        "max.message.bytes": "20000000",
      });
      const isSet = async () => (await admin.ofTopic(topic))["retention.ms"] === "3600000";
      await waitFor("the broker to know the setting", isSet, DEADLINE_MS);
      await expect(openTestKafkaLog(kafka.brokers, { topicPrefix })).rejects.toThrow(
        `topic ${topic} has retention.ms=3600000: set it to 604800000`,
      );
    });

    test("new topics do not take compression and a bound on their bytes from the broker's defaults, and limits is compacted soon", async () => {
      await using admin = await connectAdmin(kafka.brokers);
      await admin.setOfBroker(1, { "compression.type": "zstd", "log.retention.bytes": "1000000" });
      try {
        const topicPrefix = freshPrefix();
        const log = own(await openTestKafkaLog(kafka.brokers, { topicPrefix }));
        const seen = await consumed(log);
        await log.append([rec("x".repeat(1_000))]);
        await until(() => seen.length === 1, "the record", DEADLINE_MS);
        expect(await admin.ofTopic(`${topicPrefix}events`)).toMatchObject({
          "compression.type": "producer",
          "retention.bytes": "-1",
        });
        expect(await admin.ofTopic(`${topicPrefix}limits`)).toMatchObject({
          "compression.type": "producer",
          "segment.bytes": String(16 * 1024 * 1024),
        });
      } finally {
        await admin.setOfBroker(1, {});
      }
    });

    test("regression: new topics keep the times of the process that wrote, also on brokers that stamp records: with a broker's clock two hours behind, each retry went round in its delay topic hundreds of times", async () => {
      await using admin = await connectAdmin(kafka.brokers);
      await admin.setOfBroker(1, { "log.message.timestamp.type": "LogAppendTime" });
      try {
        const topicPrefix = freshPrefix();
        own(await openTestKafkaLog(kafka.brokers, { topicPrefix }));
        for (const { topic } of DELAY_TIERS)
          expect(await admin.ofTopic(topicPrefix + topic)).toMatchObject({
            "message.timestamp.type": "CreateTime",
          });
      } finally {
        await admin.setOfBroker(1, {});
      }
    });

    test("a replication factor that the brokers cannot keep is told as such", async () => {
      await expect(openTestKafkaLog(kafka.brokers, { replicationFactor: 2 })).rejects.toThrow(
        "new topics are to lie on 2 brokers, and 1 are there: start the others, or set RELAY_REPLICATION_FACTOR to 1 at most",
      );
    });

    test("new topics wait for every broker that is named: made while some were away, they had one replica for ever", async () => {
      await expect(
        openTestKafkaLog([...kafka.brokers, "127.0.0.1:1", "127.0.0.1:2"]),
      ).rejects.toThrow("new topics are to lie on 3 brokers, and 1 are there");
    });

    test("two names wait for nobody: their topics have one replica anyway", async () => {
      own(await openTestKafkaLog([...kafka.brokers, "127.0.0.1:1"]));
    });

    test("topics made on fewer brokers are told as such, and not to wait for replicas that they do not have: followed, that had every record refused", async () => {
      const topicPrefix = freshPrefix();
      await (
        await openTestKafkaLog(kafka.brokers, { topicPrefix, replicationFactor: 1 })
      )[Symbol.asyncDispose]();
      const warnings: unknown[] = [];
      const logger = makeSilentLogger((level, message, fields) => {
        if (level === "warn") warnings.push({ ...fields, message });
      });
      own(await openTestKafkaLog(kafka.brokers, { topicPrefix, replicationFactor: 3, logger }));
      expect(warnings).toEqual([
        {
          topics: TOPICS.map((topic) => `${topicPrefix}${topic}`),
          replicas: 1,
          wanted: 3,
          mend: "reassign their partitions to 3 brokers each (kafka-reassign-partitions), or set RELAY_REPLICATION_FACTOR to 1",
          message: "log.topic_replicas_differ",
        },
      ]);
    });

    test("a topic that cannot be made is told with the broker's reason", async () => {
      await expect(
        openTestKafkaLog(kafka.brokers, { topicPrefix: `${"x".repeat(245)}.` }),
      ).rejects.toThrow(/topic x+\.\S+ cannot be made: /);
    });

    test("brokers that cannot be reached at start are named", async () => {
      await expect(
        openKafkaLog({
          connection: { brokers: ["127.0.0.1:1"], clientId: "t" },
          topicPrefix: "t.",
          partitions: 1,
          replicationFactor: null,
          maxRecordBytes: 1_000,
          retentionMs: 1_000,
          logger: quietLogger,
        }),
      ).rejects.toThrow("Kafka at 127.0.0.1:1 cannot be used");
    });

    test("a first broker of the list that is frozen keeps nobody from starting: it was asked for ever, and the others never", async () => {
      const [host, port] = kafka.brokers[0]!.split(":");
      const frozen = own(
        await startTcpProxy({
          target: { host: host!, port: Number(port) },
          random: makeSeededRandom(1),
        }),
      );
      frozen.setMode("stall");
      const log = own(
        await openTestKafkaLog([`127.0.0.1:${frozen.port}`, ...kafka.brokers], {
          replicationFactor: 1,
        }),
      );
      await consumed(log);
      const [position] = await log.append([rec("first")]);
      expect(position?.offset).toBe(0);
    });

    test("brokers that come a moment after the relay are waited for", async () => {
      const [host, port] = kafka.brokers[0]!.split(":");
      const proxy = own(
        await startTcpProxy({
          target: { host: host!, port: Number(port) },
          random: makeSeededRandom(1),
        }),
      );
      proxy.setMode("cut");
      const logger = makeSilentLogger((_level, message) => {
        if (message === "log.brokers_awaited") proxy.setMode("pass");
      });
      const log = own(await openTestKafkaLog([`127.0.0.1:${proxy.port}`], { logger }));
      const [position] = await log.append([rec("first")]);
      expect(position?.offset).toBe(0);
    });
  },
);
