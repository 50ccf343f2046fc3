import { createRequire } from "node:module";
import type { Cluster, Consumer, ConsumerRunConfig, EachBatchPayload, Kafka } from "kafkajs";
import { expect, test, vi } from "vitest";
import type { OwnedPartition } from "../../../src/domain/log.ts";
import { guardConsumerGroup } from "../../../src/adapters/kafka/guards/consumer-group-guard.ts";
import { KafkaConsumer } from "../../../src/adapters/kafka/consume/kafka-consumer.ts";
import type { LostRecords } from "../../../src/adapters/kafka/consume/lost-records.ts";
import { closedError, unreachableError } from "../../support/group-fake.ts";
import { waitFor } from "../../support/wait-for.ts";

const DEADLINE_MS = 30_000;

const silence = new Promise<never>(() => {});
const found = async (): Promise<object> => ({ offsetFetch: async () => ({ responses: [] }) });

interface WireCommit {
  readonly offset: string;
  readonly metadata: string;
}

/** A coordinator of a group that has committed this, and keeps what it commits. */
function coordinatorWith(...commits: WireCommit[]) {
  const ofPartition = <T>(found: T) => [{ topic: "events", partitions: [found] }];
  const coordinator = {
    offsetFetch: async () => ({ responses: ofPartition({ partition: 0, ...commits.at(-1)! }) }),
    offsetCommit: async (request: {
      readonly topics: readonly { readonly partitions: readonly WireCommit[] }[];
    }) => {
      const { offset, metadata } = request.topics[0]!.partitions[0]!;
      commits.push({ offset, metadata });
    },
  };
  return { commits, findCoordinator: async (): Promise<object> => coordinator };
}

/** Makes a consumer of one topic whose client does what the test says. */
function consumerOfFakes({
  connect = async () => undefined,
  disconnect = async () => undefined,
  findCoordinator = found,
  /** The ends of the log's only partition. */
  ends = { earliest: 0, latest: 0 },
} = {}) {
  const listeners = new Map<string, (event: object) => void>();
  const calls: string[] = [];
  const seeks: string[] = [];
  const lost: LostRecords[] = [];
  let eachBatch: (payload: EachBatchPayload) => Promise<void> = async () => undefined;
  const client = {
    events: { GROUP_JOIN: "join", REBALANCING: "rebalancing", CRASH: "crash" },
    on: (event: string, listener: (event: object) => void) => void listeners.set(event, listener),
    pause: () => undefined,
    resume: () => undefined,
    seek: ({ offset }: { offset: string }) => void seeks.push(offset),
    connect,
    subscribe: async () => undefined,
    run: async (config: ConsumerRunConfig) => {
      calls.push("run");
      eachBatch = config.eachBatch!;
    },
    disconnect: () => {
      calls.push("disconnect");
      return disconnect();
    },
  } as unknown as Consumer;
  const cluster = {
    findGroupCoordinator: async () => findCoordinator(),
    fetchTopicsOffset: async ([asked]: { readonly fromBeginning: boolean }[]) => {
      const offset = asked!.fromBeginning ? ends.earliest : ends.latest;
      return [{ topic: "events", partitions: [{ partition: 0, offset }] }];
    },
  } as unknown as Cluster;
  const kafka = {
    consumer: ({ partitionAssigners }: { partitionAssigners: ((of: object) => unknown)[] }) => {
      partitionAssigners[0]!({ cluster });
      return client;
    },
  } as unknown as Kafka;
  const assigned: OwnedPartition[] = [];
  const revoked: OwnedPartition[] = [];
  const errors: string[] = [];
  const steps: string[] = [];
  const restoredAfterMs: number[] = [];
  let member: { fetch(nodeId: string): Promise<unknown> } | null = null;
  let nowMs = 0;
  let lastCommits: Promise<void> = Promise.resolve();
  const consumer = new KafkaConsumer(
    {
      kafka,
      groupId: "g",
      topicPrefix: "",
      topicName: (topic) => topic,
      sessionTimeoutMs: 10_000,
      metadataMaxAgeMs: 30_000,
      monotonic: () => nowMs,
      learnAtLeast: async () => 1,
      losses: { lost: (told) => void lost.push(told), mended: () => undefined },
      onDisposed: () => undefined,
    },
    {
      group: "g",
      topics: ["events"],
      onAssigned: async (partition) => {
        steps.push("assigned");
        assigned.push(partition);
      },
      onRevoked: async (partition) => {
        revoked.push(partition);
        await lastCommits;
        steps.push("revoked");
      },
      onRecords: () => undefined,
      onError: ({ message }) => void errors.push(message),
      onRestored: (afterMs) => void restoredAfterMs.push(afterMs),
    },
  );
  const join = () => listeners.get("join")!({ payload: { memberAssignment: { events: [0] } } });
  const joinIdle = () => listeners.get("join")!({ payload: { memberAssignment: { events: [] } } });
  const commitUntil = (done: Promise<void>) => void (lastCommits = done);
  /** A fetch that began elsewhere: its owner looks up where the log begins by now. */
  const fetchFrom = (fetchedOffset: string) =>
    eachBatch({ batch: { topic: "events", partition: 0, fetchedOffset } } as never);
  /** A fetch of what the log does not hold. */
  const fetchOutOfRange = (): Promise<void> => {
    guardConsumerGroup();
    const ConsumerGroup = createRequire(import.meta.url)("kafkajs/src/consumer/consumerGroup.js");
    const asked = { topic: "events", partition: 0 };
    return ConsumerGroup.prototype.recoverFromOffsetOutOfRange.call({ cluster }, asked);
  };
  /** A fetch from a broker of the group. */
  const fetchFromBroker = (find: () => Promise<object>): Promise<unknown> => {
    guardConsumerGroup();
    const ConsumerGroup = createRequire(import.meta.url)("kafkajs/src/consumer/consumerGroup.js");
    const topics = [{ topic: "events", partitions: [0] }];
    Object.assign(cluster, {
      brokerPool: { metadata: { brokers: [{ nodeId: 1, host: "b1", port: 9092 }] } },
      refreshMetadata: async () => undefined,
      refreshMetadataIfNecessary: async () => undefined,
      findBroker: find,
    });
    member = Object.assign(member ?? Object.create(ConsumerGroup.prototype), {
      cluster,
      checkForStaleAssignment: () => undefined,
      subscriptionState: { assigned: () => topics, isPaused: () => false },
      filterPartitionsByNode: () => topics,
      seekOffsets: async () => undefined,
      seekOffset: { has: () => false },
      offsetManager: { committedOffsets: () => ({ events: { 0: "0" } }), nextOffset: () => "0" },
      getActiveTopicPartitions: () => ({ events: new Set([0]) }),
      preferredReadReplicasPerTopicPartition: {},
    });
    return member!.fetch("1");
  };
  const fetches = { fetchFrom, fetchOutOfRange, fetchFromBroker };
  /** A member's heartbeat, sent to where it has joined. */
  const beat = async (): Promise<void> => {
    const request = { groupId: "g", memberId: "m" };
    const coordinator = (await cluster.findGroupCoordinator({ groupId: "g" })) as unknown as {
      joinGroup(asked: object): Promise<unknown>;
      heartbeat(asked: object): Promise<unknown>;
    };
    await coordinator.joinGroup(request);
    await coordinator.heartbeat(request);
  };
  const crash = (message: string): void =>
    listeners.get("crash")!({ payload: { error: new Error(message) } });
  const passMs = (ms: number): void => void (nowMs += ms);
  const told = { calls, seeks, lost, errors, restoredAfterMs };
  return {
    consumer,
    join,
    joinIdle,
    assigned,
    revoked,
    steps,
    commitUntil,
    beat,
    crash,
    passMs,
    ...fetches,
    ...told,
  };
}

test("regression: an assignment that replaces another ends its owners, and waits for their last commits: the first owner was never told, and both went on", async () => {
  const { consumer, join, assigned, revoked, steps, commitUntil } = consumerOfFakes();
  join();
  await waitFor("the owner", () => assigned.length === 1, DEADLINE_MS, 1);
  let release = (): void => undefined;
  commitUntil(new Promise((resolve) => (release = resolve)));
  join();
  expect(revoked).toEqual(assigned);
  join();
  // Long enough for an owner that did not wait.
  await new Promise((resolve) => setTimeout(resolve, 50));
  expect(steps).toEqual(["assigned"]);
  release();
  await waitFor("the next owner", () => assigned.length === 2, DEADLINE_MS, 1);
  expect(steps).toEqual(["assigned", "revoked", "assigned"]);
  await consumer[Symbol.asyncDispose]();
  expect(revoked).toEqual(assigned);
});

test("an owner whose last commits are over commits no more: the next one of the same generation may have gone on by then", async () => {
  const { commits, findCoordinator } = coordinatorWith({ offset: "2", metadata: "m" });
  const { consumer, join, assigned } = consumerOfFakes({
    findCoordinator,
    ends: { earliest: 0, latest: 10 },
  });
  join();
  await waitFor("the owner", () => assigned.length === 1, DEADLINE_MS, 1);
  join();
  await waitFor("the next owner", () => assigned.length === 2, DEADLINE_MS, 1);
  await assigned[1]!.commit([{ topic: "events", offset: 7 }]);
  await assigned[0]!.commit([{ topic: "events", offset: 3 }]);
  expect(commits.map(({ offset }) => offset)).toEqual(["2", "7"]);
  await consumer[Symbol.asyncDispose]();
});

test("regression: of two assignments in a row one is opened: both were, and the partition had two owners", async () => {
  const { consumer, join, assigned, revoked } = consumerOfFakes();
  join();
  join();
  await waitFor("the owner", () => assigned.length > 0, DEADLINE_MS, 1);
  await consumer[Symbol.asyncDispose]();
  expect(assigned).toHaveLength(1);
  expect(revoked).toEqual(assigned);
});

test("regression: a delivery process without brokers took 28 s to stop, and failed, since each of its consumers asked them again and again to let it go", async () => {
  const { consumer } = consumerOfFakes({ disconnect: () => silence });
  await consumer[Symbol.asyncDispose]();
});

test("regression: a commit that no broker takes is told of while its owner still waits: who was to end waited for it a minute", async () => {
  let isGone = false;
  const findCoordinator = () => (isGone ? silence : found());
  const { consumer, join, assigned } = consumerOfFakes({ findCoordinator });
  join();
  await waitFor("the owner", () => assigned.length === 1, DEADLINE_MS, 1);
  isGone = true;
  const commit = assigned[0]!.commit([{ topic: "events", offset: 1 }]);
  await expect(commit).rejects.toMatchObject({ code: "log_unavailable" });
  await consumer[Symbol.asyncDispose]();
});

test("regression: a consumer that is closed while it begins leaves the group that it joins after: it stayed there", async () => {
  let connected = (): void => undefined;
  const connecting = new Promise<undefined>((resolve) => (connected = () => resolve(undefined)));
  const { consumer, calls } = consumerOfFakes({ connect: () => connecting });
  const begun = consumer.start().then(
    () => "joined",
    ({ code }: { readonly code: string }) => code,
  );
  const closing = consumer[Symbol.asyncDispose]();
  await waitFor("the end of what there is", () => calls.length > 0, DEADLINE_MS, 1);
  connected();
  await closing;
  expect(await begun).toBe("log_closed");
  expect(calls).toEqual(["disconnect", "run", "disconnect"]);
});

test("regression: what retention deleted before its group had read it is told of once, and committed past with its metadata: webhooks that were answered 200 were skipped without a word", async () => {
  const { commits, findCoordinator } = coordinatorWith({ offset: "2", metadata: "m" });
  const ends = { earliest: 5, latest: 10 };
  const { consumer, join, assigned, seeks, lost } = consumerOfFakes({ findCoordinator, ends });
  join();
  await waitFor("the owner's fetch", () => seeks.length === 1, DEADLINE_MS, 1);
  expect(lost).toEqual([{ topic: "events", partition: 0, from: 2, to: 5, why: "deleted" }]);
  expect(commits.slice(1)).toEqual([{ offset: "5", metadata: "m" }]);
  expect(assigned[0]!.committed("events")).toEqual({ offset: 5, metadata: "m" });
  expect(seeks).toEqual(["5"]);
  join();
  await waitFor("the next owner's fetch", () => seeks.length === 2, DEADLINE_MS, 1);
  expect(lost).toHaveLength(1);
  expect(commits).toHaveLength(2);
  await consumer[Symbol.asyncDispose]();
});

test("a group that has committed nothing yet, or all there is, loses nothing and commits nothing", async () => {
  for (const offset of ["-1", "5"]) {
    const { commits, findCoordinator } = coordinatorWith({ offset, metadata: "" });
    const ends = { earliest: 5, latest: 10 };
    const { consumer, join, seeks, lost } = consumerOfFakes({ findCoordinator, ends });
    join();
    await waitFor("the owner's fetch", () => seeks.length === 1, DEADLINE_MS, 1);
    expect({ seeks, lost, commits: commits.length }).toEqual({
      seeks: ["5"],
      lost: [],
      commits: 1,
    });
    await consumer[Symbol.asyncDispose]();
  }
});

test("regression: what retention deletes while an owner runs is told of once: it was skipped without a word", async () => {
  const { findCoordinator } = coordinatorWith({ offset: "2", metadata: "" });
  const ends = { earliest: 0, latest: 10 };
  const { consumer, join, seeks, lost, fetchFrom } = consumerOfFakes({ findCoordinator, ends });
  await consumer.start();
  join();
  await waitFor("the owner's fetch", () => seeks.length === 1, DEADLINE_MS, 1);
  ends.earliest = 7;
  await fetchFrom("0");
  await fetchFrom("0");
  await waitFor("both to be moved", () => seeks.length === 3, DEADLINE_MS, 1);
  expect(seeks).toEqual(["2", "7", "7"]);
  expect(lost).toEqual([{ topic: "events", partition: 0, from: 2, to: 7, why: "deleted" }]);
  await consumer[Symbol.asyncDispose]();
});

test("a log that ends before its owner, since it was lost with its disk, is told of once, and gets an owner that begins at its end", async () => {
  const { findCoordinator } = coordinatorWith({ offset: "3", metadata: "m" });
  const ends = { earliest: 0, latest: 3 };
  const { consumer, join, assigned, revoked, seeks, errors, fetchOutOfRange } = consumerOfFakes({
    findCoordinator,
    ends,
  });
  join();
  await waitFor("the owner's fetch", () => seeks.length === 1, DEADLINE_MS, 1);
  ends.latest = 0;
  await fetchOutOfRange();
  await waitFor("the next owner's fetch", () => seeks.length === 2, DEADLINE_MS, 1);
  expect(revoked).toEqual([assigned[0]]);
  expect(seeks).toEqual(["3", "0"]);
  expect(errors).toEqual([expect.stringMatching("^events/0 ends at 0, and was read up to 3")]);
  expect(assigned[1]!.committed("events")).toEqual({ offset: 0, metadata: "m" });
  await consumer[Symbol.asyncDispose]();
});

test("regression: a consumer that has lost its brokers tells once when it works again, and after how long: only that it did not was told; one without partitions has nothing to read first", async () => {
  const { consumer, join, joinIdle, crash, passMs, errors, restoredAfterMs } = consumerOfFakes();
  join();
  crash("no broker");
  passMs(9_000);
  crash("still no broker");
  passMs(1_000);
  join();
  expect(restoredAfterMs).toEqual([]);
  passMs(2_000);
  joinIdle();
  joinIdle();
  expect(errors).toEqual(["no broker", "still no broker"]);
  expect(restoredAfterMs).toEqual([12_000]);
  await consumer[Symbol.asyncDispose]();
});

test("regression: a consumer that could not reach a broker tells once when it reads all again, and after how long: only that it could not was told", async () => {
  const { consumer, fetchFromBroker, passMs, errors, restoredAfterMs } = consumerOfFakes();
  let steadyMs = 0;
  vi.spyOn(performance, "now").mockImplementation(() => steadyMs);
  const away = () => Promise.reject(unreachableError("b1"));
  await fetchFromBroker(away);
  steadyMs += 15_000;
  await fetchFromBroker(away);
  passMs(9_000);
  const nothingNew = { topicName: "events", partitions: [{ partition: 0, messages: [] }] };
  const back = async () => ({ fetch: async () => ({ responses: [nothingNew] }) });
  await fetchFromBroker(back);
  await fetchFromBroker(back);
  vi.restoreAllMocks();
  expect(errors).toEqual([expect.stringContaining("ECONNREFUSED")]);
  expect(restoredAfterMs).toEqual([9_000]);
  await consumer[Symbol.asyncDispose]();
});

test("a coordinator that cannot be found is told of while it is looked for, and that it was found as well", async () => {
  const joinGroup = async () => ({ generationId: 1, memberId: "m" });
  const gone = { joinGroup, heartbeat: () => Promise.reject(closedError()) };
  const next = { joinGroup, heartbeat: async () => undefined };
  let lookUps = 0;
  const findCoordinator = async (): Promise<object> => {
    lookUps += 1;
    if (lookUps === 1) return gone;
    if (lookUps === 2) throw new Error("no coordinator");
    return next;
  };
  const { consumer, beat, joinIdle, passMs, errors, restoredAfterMs } = consumerOfFakes({
    findCoordinator,
  });
  await beat();
  passMs(9_000);
  joinIdle();
  expect(errors).toEqual(["no coordinator"]);
  expect(restoredAfterMs).toEqual([9_000]);
  await consumer[Symbol.asyncDispose]();
});
