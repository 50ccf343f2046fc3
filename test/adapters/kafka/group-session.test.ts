import type { Cluster } from "kafkajs";
import { expect, test } from "vitest";
import type { AssignmentOffsets } from "../../../src/adapters/kafka/consume/assignment-offsets.ts";
import { GroupSession } from "../../../src/adapters/kafka/consume/group-session.ts";
import { KafkaPartition } from "../../../src/adapters/kafka/consume/kafka-partition.ts";
import { closedError, protocolError } from "../../support/group-fake.ts";
import { waitFor } from "../../support/wait-for.ts";

const NEW = { groupId: "g", memberId: "" };

interface Coordinator {
  joinGroup(request: object): Promise<unknown>;
  heartbeat(request: object): Promise<unknown>;
  leaveGroup(request: object): Promise<unknown>;
}
interface CommitRequest {
  readonly groupGenerationId: number;
  readonly topics: readonly {
    readonly topic: string;
    readonly partitions: readonly {
      readonly partition: number;
      readonly offset: string;
      readonly metadata?: string;
    }[];
  }[];
}

const SESSION_MS = 10_000;

/** Returns the coordinator as a session's consumer calls it, and what it is asked to join as; it knows one member. */
async function joinedCoordinator() {
  const joinedAs: string[] = [];
  const steps: string[] = [];
  const commits: CommitRequest[] = [];
  const clock = { nowMs: 0 };
  const brokers = {
    member: "m1",
    heartbeat: async (): Promise<void> => undefined,
    leave: async (): Promise<void> => undefined,
    commit: async (): Promise<void> => undefined,
    committed: [] as readonly {
      readonly partition: number;
      readonly offset: string;
      readonly metadata: string;
    }[],
  };
  const heartbeatsAt: string[] = [];
  const makeCoordinator = (name: string) => ({
    joinGroup: async ({ memberId }: { memberId: string }) => {
      steps.push("join");
      joinedAs.push(memberId);
      if (memberId !== "" && memberId !== brokers.member) throw protocolError("UNKNOWN_MEMBER_ID");
      return { generationId: joinedAs.length, memberId: brokers.member };
    },
    heartbeat: () => {
      heartbeatsAt.push(name);
      return brokers.heartbeat();
    },
    leaveGroup: () => {
      steps.push("leave");
      return brokers.leave();
    },
    offsetFetch: async () => ({ responses: [{ topic: "t", partitions: brokers.committed }] }),
    offsetCommit: (request: CommitRequest) => {
      commits.push(request);
      return brokers.commit();
    },
  });
  const places = { coordinator: makeCoordinator("first") };
  const cluster = {
    findGroupCoordinator: async () => places.coordinator,
  } as unknown as Cluster;
  const session = new GroupSession({
    groupId: "g",
    sessionTimeoutMs: SESSION_MS,
    monotonic: () => clock.nowMs,
    beforeJoin: async () => void steps.push("old ownership ended"),
    onError: () => {},
  });
  session.attach(cluster);
  const found: unknown = await cluster.findGroupCoordinator({ groupId: "g" });
  const group = found as Coordinator;
  await group.joinGroup(NEW);
  /** Gives the group another coordinator; the old one says so. */
  const move = (): void => {
    places.coordinator = makeCoordinator("second");
  };
  return { session, group, joinedAs, brokers, steps, commits, clock, move, heartbeatsAt };
}

test("regression: a consumer that starts again after its brokers were away joins as the member that it was: the group waited for that one until its session was over", async () => {
  const { group, joinedAs, brokers } = await joinedCoordinator();
  brokers.leave = () => Promise.reject(closedError());
  await expect(group.leaveGroup({ ...NEW, memberId: "m1" })).rejects.toThrow("Closed connection");
  await group.joinGroup(NEW);
  expect(joinedAs).toEqual(["", "m1"]);
});

test("one that the group has given up joins as a new member when it is told so", async () => {
  const { group, joinedAs, brokers } = await joinedCoordinator();
  brokers.member = "m2";
  await expect(group.joinGroup(NEW)).rejects.toMatchObject({ type: "UNKNOWN_MEMBER_ID" });
  await group.joinGroup(NEW);
  expect(joinedAs).toEqual(["", "m1", ""]);
});

test("one that has left joins as a new member", async () => {
  const { group, joinedAs } = await joinedCoordinator();
  await group.leaveGroup({ ...NEW, memberId: "m1" });
  await group.joinGroup(NEW);
  expect(joinedAs).toEqual(["", ""]);
});

test("old ownership has ended before the group is joined again or left", async () => {
  const { group, steps } = await joinedCoordinator();
  await group.joinGroup(NEW);
  await group.leaveGroup(NEW);
  expect(steps).toEqual(["join", "join", "leave"].flatMap((step) => ["old ownership ended", step]));
});

test("a session lives until the timeout after its last answered heartbeat was sent, however late the answer came", async () => {
  const { session, group, brokers, clock } = await joinedCoordinator();
  expect(session.isAlive()).toBe(true);
  clock.nowMs = 4_000;
  brokers.heartbeat = async () => void (clock.nowMs = 9_000);
  await group.heartbeat(NEW);
  clock.nowMs = 4_000 + SESSION_MS - 1;
  expect(session.isAlive()).toBe(true);
  clock.nowMs += 1;
  expect(session.isAlive()).toBe(false);
});

test("the answer to an earlier heartbeat that comes last shortens no session, and one that fails lengthens none", async () => {
  const { session, group, brokers, clock } = await joinedCoordinator();
  let answerFirst = (): void => undefined;
  brokers.heartbeat = () => new Promise((resolve) => (answerFirst = resolve));
  clock.nowMs = 1_000;
  const first = group.heartbeat(NEW);
  brokers.heartbeat = async () => undefined;
  clock.nowMs = 5_000;
  await group.heartbeat(NEW);
  answerFirst();
  await first;
  brokers.heartbeat = () => Promise.reject(protocolError("GROUP_AUTHORIZATION_FAILED"));
  clock.nowMs = 9_000;
  await expect(group.heartbeat(NEW)).rejects.toThrow("authorized");
  clock.nowMs = 5_000 + SESSION_MS - 1;
  expect(session.isAlive()).toBe(true);
  clock.nowMs += 1;
  expect(session.isAlive()).toBe(false);
});

test.each(["ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "FENCED_INSTANCE_ID"])(
  "a session is over at once when a heartbeat is answered with %s: another member has the partitions",
  async (type) => {
    const { session, group, brokers } = await joinedCoordinator();
    brokers.heartbeat = () => Promise.reject(protocolError(type));
    await expect(group.heartbeat(NEW)).rejects.toMatchObject({ type });
    expect(session.isAlive()).toBe(false);
  },
);

test("a session goes on while its group rebalances, and is over as soon as it leaves, before the answer", async () => {
  const { session, group, brokers } = await joinedCoordinator();
  brokers.heartbeat = () => Promise.reject(protocolError("REBALANCE_IN_PROGRESS"));
  await expect(group.heartbeat(NEW)).rejects.toMatchObject({ type: "REBALANCE_IN_PROGRESS" });
  expect(session.isAlive()).toBe(true);
  let wasAlive = true;
  brokers.leave = async () => void (wasAlive = session.isAlive());
  await group.leaveGroup(NEW);
  expect(wasAlive).toBe(false);
});

test.each([
  ["its broker is gone", closedError],
  ["it has moved", () => protocolError("NOT_COORDINATOR_FOR_GROUP")],
])("a heartbeat goes to the next coordinator when %s", async (_why, failure) => {
  const { session, group, brokers, clock, move, heartbeatsAt } = await joinedCoordinator();
  brokers.heartbeat = async () => {
    if (heartbeatsAt.length === 1) throw failure();
  };
  move();
  clock.nowMs = SESSION_MS - 1;
  await group.heartbeat(NEW);
  await group.heartbeat(NEW);
  expect(heartbeatsAt).toEqual(["first", "second", "second"]);
  clock.nowMs = SESSION_MS;
  expect(session.isAlive()).toBe(true);
});

test("regression: a heartbeat that the next coordinator refuses is sent again: kafkajs joined the group anew, and every owner lost its partitions", async () => {
  const { session, group, brokers, move, heartbeatsAt, joinedAs } = await joinedCoordinator();
  brokers.heartbeat = async () => {
    if (heartbeatsAt.length < 4) throw protocolError("NOT_COORDINATOR_FOR_GROUP");
  };
  move();
  await group.heartbeat(NEW);
  expect(heartbeatsAt).toEqual(["first", "second", "second", "second"]);
  expect({ joinedAs, isAlive: session.isAlive() }).toEqual({ joinedAs: [""], isAlive: true });
});

test("a heartbeat that waits for a coordinator ends with its session, or once the group was joined anew", async () => {
  const { session, group, brokers, heartbeatsAt } = await joinedCoordinator();
  brokers.heartbeat = () => Promise.reject(protocolError("NOT_COORDINATOR_FOR_GROUP"));
  const joinedAnew = group.heartbeat(NEW);
  await group.joinGroup(NEW);
  await joinedAnew;
  expect(session.isAlive()).toBe(true);

  const ended = group.heartbeat(NEW);
  session.end();
  await expect(ended).rejects.toThrow("coordinator");
  const { length } = heartbeatsAt;
  await expect(group.heartbeat(NEW)).rejects.toThrow("coordinator");
  expect(heartbeatsAt).toHaveLength(length + 1);
});

test("what is said of a member as it was before it joined anew does not end its session", async () => {
  const { session, group, brokers } = await joinedCoordinator();
  let refuse = (_error: Error): void => undefined;
  brokers.heartbeat = () => new Promise((_resolve, reject) => (refuse = reject));
  const before = group.heartbeat(NEW);
  await group.joinGroup(NEW);
  refuse(protocolError("ILLEGAL_GENERATION"));
  await before;
  expect(session.isAlive()).toBe(true);
});

test("a member that its coordinator no longer knows joins as a new one; a rebalance asks no other coordinator", async () => {
  const { group, joinedAs, brokers, move, heartbeatsAt } = await joinedCoordinator();
  move();
  for (const type of ["REBALANCE_IN_PROGRESS", "UNKNOWN_MEMBER_ID"]) {
    brokers.heartbeat = () => Promise.reject(protocolError(type));
    await expect(group.heartbeat(NEW)).rejects.toMatchObject({ type });
  }
  expect(heartbeatsAt).toEqual(["first", "first"]);
  await group.joinGroup(NEW);
  expect(joinedAs).toEqual(["", ""]);
});

const commitOnWire = (partition: number, offset: string, metadata = "") => ({
  partition,
  offset,
  metadata,
});
const commitOf = (partition: number, offset: number, topic = "t") => ({
  topic,
  partition,
  offset,
  metadata: "",
});

test("what was committed is told with its metadata, also at the very beginning; where nothing was, nothing is", async () => {
  const { session, brokers } = await joinedCoordinator();
  const metadata = "owner";
  brokers.committed = [
    { partition: 0, offset: "0", metadata },
    { partition: 1, offset: "-1", metadata },
  ];
  const committed = await session.committed([{ topic: "t", partitions: [0, 1, 2] }]);
  expect([0, 1, 2].map((partition) => committed("t", partition))).toEqual([
    { offset: 0, metadata: "owner" },
    null,
    null,
  ]);
});

test("heartbeats go to where the group was joined last, also after its coordinator had moved and came back", async () => {
  const { group, brokers, move, heartbeatsAt } = await joinedCoordinator();
  brokers.heartbeat = async () => {
    if (heartbeatsAt.length === 1) throw protocolError("NOT_COORDINATOR_FOR_GROUP");
  };
  move();
  await group.heartbeat(NEW);
  await group.joinGroup(NEW);
  await group.heartbeat(NEW);
  expect(heartbeatsAt).toEqual(["first", "second", "first"]);
});

test("commits made while another is on its way share a request, in which the last of each partition counts", async () => {
  const { session, brokers, commits } = await joinedCoordinator();
  let answer = (): void => undefined;
  brokers.commit = () => new Promise((resolve) => (answer = resolve));
  const first = session.commit([commitOf(0, 1)], 1);
  await new Promise((resolve) => setImmediate(resolve));
  brokers.commit = async () => undefined;
  const others = [[commitOf(0, 2)], [commitOf(1, 5)], [commitOf(0, 3), commitOf(0, 9, "u")]];
  const all = others.map((entries) => session.commit(entries, 1));
  answer();
  await Promise.all([first, ...all]);
  expect(
    commits.map(({ topics }) =>
      topics.flatMap(({ topic, partitions }) =>
        partitions.map(({ partition, offset }) => `${topic}/${partition}:${offset}`),
      ),
    ),
  ).toEqual([["t/0:1"], ["t/0:3", "t/1:5", "u/0:9"]]);
});

test("a commit of a generation that is over is not sent, also when the next one has begun while it waited", async () => {
  const { session, group, brokers, commits } = await joinedCoordinator();
  let answer = (): void => undefined;
  brokers.commit = () => new Promise((resolve) => (answer = resolve));
  const first = session.commit([commitOf(0, 1)], 1);
  await new Promise((resolve) => setImmediate(resolve));
  brokers.commit = async () => undefined;
  const late = session.commit([commitOf(0, 2)], 1);
  await group.joinGroup(NEW);
  const next = session.commit([commitOf(0, 7)], 2);
  answer();
  await Promise.all([first, late, next]);
  expect(commits.map(({ groupGenerationId }) => groupGenerationId)).toEqual([1, 2]);
});

test("a commit that the coordinator fences is nobody's any more; one that fails otherwise is tried again", async () => {
  const { session, brokers, commits } = await joinedCoordinator();
  brokers.commit = () => Promise.reject(protocolError("REBALANCE_IN_PROGRESS"));
  await session.commit([commitOf(0, 1)], 1);
  expect(commits).toHaveLength(1);
  brokers.commit = async () => {
    if (commits.length === 2) throw protocolError("NOT_COORDINATOR_FOR_GROUP");
  };
  await session.commit([commitOf(0, 2)], 1);
  expect(commits).toHaveLength(3);
});

test.each(["ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID"])(
  "a session is over at once when a commit is answered with %s, and the group is joined again: whoever answers heartbeats may not be its coordinator any more",
  async (type) => {
    const { session, group, brokers, commits } = await joinedCoordinator();
    brokers.commit = () => Promise.reject(protocolError(type));
    await session.commit([commitOf(0, 1)], 1);
    expect(commits).toHaveLength(1);
    expect(session.isAlive()).toBe(false);
    await expect(group.heartbeat(NEW)).rejects.toMatchObject({ type: "REBALANCE_IN_PROGRESS" });
    await group.joinGroup(NEW);
    expect(session.isAlive()).toBe(true);
  },
);

test("regression: a session ends although its heartbeats are answered once no commit was kept for as long: a coordinator that the other brokers do not reach keeps none, and one of them gives the partitions to others", async () => {
  const { session, group, brokers, clock } = await joinedCoordinator();
  clock.nowMs = 1_000;
  await session.commit([commitOf(0, 7)], 1);
  brokers.commit = () => new Promise(() => undefined);
  for (clock.nowMs = 2_000; clock.nowMs < 1_000 + SESSION_MS; clock.nowMs += 1_000) {
    await group.heartbeat(NEW);
    expect(session.isAlive()).toBe(true);
  }
  await group.heartbeat(NEW);
  expect(session.isAlive()).toBe(false);
});

test("a session in which nothing new is committed commits the lowest offset that stands once more, and goes on", async () => {
  const { session, group, brokers, commits, clock } = await joinedCoordinator();
  const metadata = "owner";
  brokers.committed = [
    { partition: 0, offset: "9", metadata },
    { partition: 1, offset: "4", metadata },
    { partition: 2, offset: "-1", metadata },
  ];
  await session.committed([{ topic: "t", partitions: [0, 1, 2] }]);
  await session.commit([commitOf(0, 12)], 1);
  for (clock.nowMs = 1_000; clock.nowMs < 3 * SESSION_MS; clock.nowMs += 1_000) {
    await group.heartbeat(NEW);
    await new Promise((resolve) => setImmediate(resolve));
    expect(session.isAlive()).toBe(true);
  }
  const [given, ...repeated] = commits.map(({ topics }) => topics[0]?.partitions);
  expect(given).toEqual([commitOnWire(0, "12")]);
  expect(repeated.length).toBeGreaterThanOrEqual(3);
  for (const partitions of repeated) expect(partitions).toEqual([commitOnWire(1, "4", metadata)]);
});

test("a commit of which it is not known whether it was kept is not repeated as it was before", async () => {
  const { session, group, brokers, commits, clock } = await joinedCoordinator();
  await session.commit([commitOf(0, 4), commitOf(1, 9)], 1);
  brokers.commit = () => Promise.reject(protocolError("REQUEST_TIMED_OUT"));
  await expect(session.commit([commitOf(0, 5)], 1)).rejects.toThrow("could not be committed");
  brokers.commit = async () => undefined;
  const { length } = commits;
  clock.nowMs = SESSION_MS / 2;
  await group.heartbeat(NEW);
  await waitFor("what stands to be committed", () => commits.length > length);
  expect(commits.at(-1)?.topics[0]?.partitions).toEqual([commitOnWire(1, "9")]);
});

test("regression: what stands is repeated until it is kept, however often it was not: given up after the first time, it left a member alive that owned nothing for good", async () => {
  const { session, group, brokers, commits, clock } = await joinedCoordinator();
  await session.commit([commitOf(0, 4)], 1);
  brokers.commit = () => Promise.reject(protocolError("REQUEST_TIMED_OUT"));
  clock.nowMs = SESSION_MS;
  // Each of them is tried five times.
  await waitFor("a second one that was not kept", async () => {
    await group.heartbeat(NEW);
    return commits.length > 6;
  });
  expect(session.isAlive()).toBe(false);
  brokers.commit = async () => undefined;
  await waitFor("a session that is proven again", async () => {
    await group.heartbeat(NEW);
    return session.isAlive();
  });
});

test("regression: a session that has ended joins the group again where of no commit it is known whether it was kept: there is none to repeat, and it owned nothing for good", async () => {
  const { session, group, brokers, clock } = await joinedCoordinator();
  await session.commit([commitOf(0, 4)], 1);
  brokers.commit = () => Promise.reject(protocolError("REQUEST_TIMED_OUT"));
  await expect(session.commit([commitOf(0, 5)], 1)).rejects.toThrow("could not be committed");
  brokers.commit = async () => undefined;
  for (const nowMs of [SESSION_MS - 1, SESSION_MS]) {
    clock.nowMs = nowMs;
    await group.heartbeat(NEW);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await expect(group.heartbeat(NEW)).rejects.toMatchObject({ type: "REBALANCE_IN_PROGRESS" });
  await group.joinGroup(NEW);
  expect(session.isAlive()).toBe(true);
});

test("a commit that another coordinator kept has heartbeats go there, too", async () => {
  const { session, group, brokers, commits, move, heartbeatsAt } = await joinedCoordinator();
  await group.heartbeat(NEW);
  brokers.commit = async () => {
    if (commits.length === 1) throw protocolError("GROUP_COORDINATOR_NOT_AVAILABLE");
  };
  move();
  await session.commit([commitOf(0, 1)], 1);
  await group.heartbeat(NEW);
  expect(heartbeatsAt).toEqual(["first", "second"]);
});

test("regression: once a commit finds a topic deleted, the group is joined again before anything is committed: repeated on the topic made anew, it passed over its first records", async () => {
  const { session, group, brokers, commits } = await joinedCoordinator();
  brokers.commit = () => Promise.reject(protocolError("UNKNOWN_TOPIC_OR_PARTITION"));
  await expect(session.commit([commitOf(0, 60)], 1)).rejects.toThrow("could not be committed");
  brokers.commit = async () => undefined;
  await session.commit([commitOf(0, 60)], 1);
  expect(commits).toHaveLength(1);
  await expect(group.heartbeat(NEW)).rejects.toMatchObject({ type: "REBALANCE_IN_PROGRESS" });
  await group.joinGroup(NEW);
  await group.heartbeat(NEW);
  await session.commit([commitOf(0, 3)], 2);
  expect(commits).toHaveLength(2);
});

test("a partition is owned until it is revoked, and its owner's alone until its last commits are over, the session or the generation", async () => {
  const { session, group, clock } = await joinedCoordinator();
  const place = { partition: 0, partitions: 1 };
  const offsets = {} as AssignmentOffsets;
  const open = () =>
    new KafkaPartition(
      place,
      { session, topicName: (topic) => topic, losses: { lost: () => {}, mended: () => {} } },
      offsets,
    );
  const standing = (one: KafkaPartition) => [one.owned(), one.exclusive()];
  const revoked = open();
  expect(standing(revoked)).toEqual([true, true]);
  revoked.revoke();
  expect(standing(revoked)).toEqual([false, true]);
  revoked.close();
  expect(standing(revoked)).toEqual([false, false]);
  const frozen = open();
  clock.nowMs = SESSION_MS;
  expect(standing(frozen)).toEqual([false, false]);
  await group.joinGroup(NEW);
  expect(standing(frozen)).toEqual([false, false]);
  expect(standing(open())).toEqual([true, true]);
});
