import type { Cluster, Consumer, Kafka } from "kafkajs";
import { expect, test } from "vitest";
import type { OwnedPartition } from "../../../src/domain/log.ts";
import { KafkaConsumer } from "../../../src/adapters/kafka/consume/kafka-consumer.ts";
import { waitFor } from "../../support/wait-for.ts";

const DEADLINE_MS = 5_000;

const silence = new Promise<never>(() => {});
const found = async (): Promise<object> => ({ offsetFetch: async () => ({ responses: [] }) });

/** Makes a consumer of one topic whose client does what the test says. */
function consumerOfFakes({
  connect = async () => undefined,
  disconnect = async () => undefined,
  findCoordinator = found,
} = {}) {
  const listeners = new Map<string, (event: object) => void>();
  const calls: string[] = [];
  const client = {
    events: { GROUP_JOIN: "join", REBALANCING: "rebalancing", CRASH: "crash" },
    on: (event: string, listener: (event: object) => void) => void listeners.set(event, listener),
    pause: () => undefined,
    resume: () => undefined,
    seek: () => undefined,
    connect,
    subscribe: async () => undefined,
    run: async () => void calls.push("run"),
    disconnect: () => {
      calls.push("disconnect");
      return disconnect();
    },
  } as unknown as Consumer;
  const cluster = {
    findGroupCoordinator: async () => findCoordinator(),
    fetchTopicsOffset: async () => [{ topic: "events", partitions: [{ partition: 0, offset: 0 }] }],
  } as unknown as Cluster;
  const kafka = {
    consumer: ({ partitionAssigners }: { partitionAssigners: ((of: object) => unknown)[] }) => {
      partitionAssigners[0]!({ cluster });
      return client;
    },
  } as unknown as Kafka;
  const assigned: OwnedPartition[] = [];
  const revoked: OwnedPartition[] = [];
  const steps: string[] = [];
  let lastCommits: Promise<void> = Promise.resolve();
  const consumer = new KafkaConsumer(
    {
      kafka,
      groupId: "g",
      topicName: (topic) => topic,
      sessionTimeoutMs: 10_000,
      metadataMaxAgeMs: 30_000,
      monotonic: () => 0,
      learnAtLeast: async () => 1,
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
      onError: () => undefined,
    },
  );
  const join = () => listeners.get("join")!({ payload: { memberAssignment: { events: [0] } } });
  const commitUntil = (done: Promise<void>) => void (lastCommits = done);
  return { consumer, join, assigned, revoked, steps, calls, commitUntil };
}

test("regression: an assignment that replaces another ends its owners, and waits for their last commits: the first owner was never told, and both went on", async () => {
  const { consumer, join, assigned, revoked, steps, commitUntil } = consumerOfFakes();
  join();
  await waitFor("the owner", () => assigned.length === 1, DEADLINE_MS, 1);
  let release = (): void => undefined;
  commitUntil(new Promise((resolve) => (release = resolve)));
  join();
  expect(revoked).toEqual(assigned);
  release();
  await waitFor("the next owner", () => assigned.length === 2, DEADLINE_MS, 1);
  expect(steps).toEqual(["assigned", "revoked", "assigned"]);
  await consumer[Symbol.asyncDispose]();
  expect(revoked).toEqual(assigned);
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
