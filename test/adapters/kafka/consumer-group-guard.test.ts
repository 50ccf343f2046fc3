import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import {
  guardConsumerGroup,
  listenToGroup,
} from "../../../src/adapters/kafka/guards/consumer-group-guard.ts";
import { guardStoppedRunner } from "../../../src/adapters/kafka/guards/stopped-runner-guard.ts";
import {
  closedError,
  GroupFake,
  outOfRangeError,
  protocolError,
  unreachableError,
} from "../../support/group-fake.ts";
import { waitFor } from "../../support/wait-for.ts";

const DEADLINE_MS = 30_000;
const LAST_FETCHES = 20;
let group: GroupFake;

beforeEach(async () => {
  guardStoppedRunner();
  guardConsumerGroup();
  guardConsumerGroup();
  group = new GroupFake();
  await group.runner.start();
});

afterEach(async () => {
  vi.restoreAllMocks();
  await group.runner.stop();
});

/** Makes a function whose first `times` calls throw. */
function failing(times: number, error: () => Error): () => void {
  let left = times;
  return () => {
    left -= 1;
    if (left >= 0) throw error();
  };
}

const joinedAgain = () => waitFor("the join", () => group.assigned.length === 2, DEADLINE_MS);

/** Waits until each of these brokers was fetched from a few more times. */
async function fetched(...nodeIds: readonly string[]): Promise<void> {
  const before = { ...group.fetches };
  const all = () => nodeIds.every((id) => group.fetches[id]! >= before[id]! + LAST_FETCHES);
  await waitFor("the fetches", all, DEADLINE_MS);
}

test("regression: a join whose last answer was lost is tried again: the member sent heartbeats and read nothing, without an error, until the next rebalance", async () => {
  group.onSync = failing(1, closedError);
  group.onHeartbeat = failing(1, () => protocolError("REBALANCE_IN_PROGRESS"));
  await joinedAgain();
  // Generation 2 was lost.
  expect(group.assigned).toEqual([1, 3]);
  expect(group.counts.crashes).toBe(0);
});

test("regression: a member that the group forgot joins again also when the first try fails: it was a member of nothing, without an error", async () => {
  group.onJoin = failing(1, () => protocolError("GROUP_LOAD_IN_PROGRESS"));
  group.onHeartbeat = failing(1, () => protocolError("UNKNOWN_MEMBER_ID"));
  await joinedAgain();
  expect(group.counts.crashes).toBe(0);
});

test("a group that cannot be joined for ever ends the consumer, which is then started again", async () => {
  group.onJoin = failing(Number.POSITIVE_INFINITY, closedError);
  group.onHeartbeat = failing(1, () => protocolError("REBALANCE_IN_PROGRESS"));
  await waitFor("the crash", () => group.counts.crashes === 1, DEADLINE_MS);
  // One join at the start, and one for each retry.
  expect(group.counts.joins).toBe(5);
});

test("a consumer that is stopped while its group cannot be joined comes to an end", async () => {
  group.onJoin = failing(Number.POSITIVE_INFINITY, closedError);
  group.onHeartbeat = failing(1, () => protocolError("REBALANCE_IN_PROGRESS"));
  await waitFor("a failed join", () => group.counts.joins >= 3, DEADLINE_MS, 1);
  await group.runner.stop();
  const { joins } = group.counts;
  await sleep(50);
  expect({ joins: group.counts.joins, leaves: group.counts.leaves }).toEqual({ joins, leaves: 1 });
});

/** Has brokers 1 and 2 refuse a fetch each, both before either has been dealt with. */
function refuseTwoFetches(errorType: string): void {
  const told = new Set<string>();
  let release = (): void => undefined;
  const bothAsked = new Promise<void>((resolve) => (release = resolve));
  group.onFetch = async (nodeId) => {
    if (nodeId === "3" || told.has(nodeId)) return;
    told.add(nodeId);
    if (told.size === 2) release();
    await bothAsked;
    throw protocolError(errorType);
  };
}

test("regression: two fetchers with a reason to join make one join: each joined for itself, and a partition had two owners in one generation", async () => {
  refuseTwoFetches("UNKNOWN_TOPIC_OR_PARTITION");
  group.onJoin = () => sleep(50);
  await joinedAgain();
  await fetched("1", "2", "3");
  expect(group.assigned).toEqual([1, 2]);
  expect(group.counts.joins).toBe(2);
});

test.each([
  "NOT_LEADER_FOR_PARTITION",
  "LEADER_NOT_AVAILABLE",
  "FENCED_LEADER_EPOCH",
  "UNKNOWN_LEADER_EPOCH",
  "KAFKA_STORAGE_ERROR",
])(
  "regression: a leader that has moved (%s) is looked up, and the group keeps its partitions: it was joined again",
  async (errorType) => {
    const { refreshes } = group.counts;
    refuseTwoFetches(errorType);
    await waitFor("the look-ups", () => group.counts.refreshes >= refreshes + 2, DEADLINE_MS);
    await fetched("1", "2", "3");
    expect(group.counts).toMatchObject({ joins: 1, crashes: 0 });
    expect(group.assigned).toEqual([1]);
  },
);

test("regression: a broker that cannot be reached keeps nobody from reading the others: all stood still between tries, and the consumer crashed after some", async () => {
  await fetched("1", "2", "3");
  const { refreshes } = group.counts;
  group.onConnect = (nodeId) => {
    if (nodeId === "1") throw unreachableError("b1");
  };
  await sleep(50);
  const atFirst = group.fetches[1];
  await Promise.all([
    fetched("2", "3"),
    // Meanwhile the current places of the partitions are asked for.
    waitFor("the metadata", () => group.counts.refreshes >= refreshes + 2, DEADLINE_MS),
  ]);
  expect(group.fetches[1]).toBe(atFirst);
  expect(group.assigned).toEqual([1]);
  expect(group.counts.crashes).toBe(0);
  group.onConnect = () => undefined;
  await fetched("1");
});

test("a broker that cannot be reached for fifteen seconds is told of, and again when it stays away", async () => {
  const told: Error[] = [];
  listenToGroup(group.cluster, {
    unreachable: (error) => told.push(error),
    fetched: () => undefined,
    outOfRange: async () => undefined,
  });
  let nowMs = 0;
  vi.spyOn(performance, "now").mockImplementation(() => nowMs);
  const error = unreachableError("b1");
  let tries = 0;
  group.onConnect = (nodeId) => {
    if (nodeId !== "1") return;
    tries += 1;
    nowMs += 15_000;
    throw error;
  };
  await waitFor("three tries", () => tries === 3, DEADLINE_MS);
  expect(told).toEqual([error, error]);
});

test.each(["answers again", "has left the cluster"])(
  "regression: all is read again once a broker that could not be reached %s, and not before: that it could not be was told, and never that this was over",
  async (how) => {
    group.answersEmpty = true;
    let fetchedAll = 0;
    listenToGroup(group.cluster, {
      unreachable: () => undefined,
      fetched: () => void (fetchedAll += 1),
      outOfRange: async () => undefined,
    });
    let isAway = true;
    let tries = 0;
    group.onConnect = (nodeId) => {
      if (nodeId !== "1" || !isAway) return;
      tries += 1;
      throw unreachableError("b1");
    };
    await waitFor("two tries", () => tries === 2, DEADLINE_MS);
    fetchedAll = 0;
    await fetched("2", "3");
    expect(fetchedAll).toBe(0);
    if (how === "answers again") isAway = false;
    else group.cluster.brokerPool.metadata.brokers.shift();
    await waitFor("the brokers that are left", () => fetchedAll > 0, DEADLINE_MS);
  },
);

test("a coordinator that cannot be reached still ends the consumer: joining again finds another one", async () => {
  group.onOffsets = () => {
    throw unreachableError("b1");
  };
  group.onHeartbeat = failing(1, () => protocolError("REBALANCE_IN_PROGRESS"));
  await waitFor("the crash", () => group.counts.crashes === 1, DEADLINE_MS);
});

test("regression: where a log does not hold what is asked for its owner is asked, and the group's offset stays: it was overwritten hundreds of times a second, without the owner's metadata", async () => {
  const asked: string[] = [];
  listenToGroup(group.cluster, {
    unreachable: () => undefined,
    fetched: () => undefined,
    outOfRange: async (topic, partition) => void asked.push(`${topic}/${partition}`),
  });
  group.onFetch = (nodeId) => {
    if (nodeId === "1") throw outOfRangeError("t", 0);
  };
  await fetched("2", "3");
  await waitFor("the owner to be asked twice", () => asked.length >= 2, DEADLINE_MS);
  expect(new Set(asked)).toEqual(new Set(["t/0"]));
  expect(group.counts).toMatchObject({ commits: 0, crashes: 0, joins: 1 });
});

test("regression: heartbeats go on when the wall clock is set back: the group forgot the member, and for as long as the clock was set back nothing was read", async () => {
  const member = new GroupFake({ heartbeatIntervalMs: 10 });
  await member.runner.start();
  try {
    await waitFor("heartbeats", () => member.counts.heartbeats >= 2, DEADLINE_MS);
    const now = Date.now.bind(Date);
    vi.spyOn(Date, "now").mockImplementation(() => now() - 86_400_000);
    const { heartbeats } = member.counts;
    await waitFor("heartbeats", () => member.counts.heartbeats >= heartbeats + 3, DEADLINE_MS);
  } finally {
    await member.runner.stop();
  }
});
