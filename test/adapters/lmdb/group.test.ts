import { expect, it } from "vitest";
import { Pump } from "../../../src/adapters/lmdb/groups/pump.ts";
import { RunQueue } from "../../../src/adapters/lmdb/run-queue.ts";
import type { CommitStore } from "../../../src/adapters/lmdb/store.ts";
import { StreamState } from "../../../src/adapters/lmdb/streams/stream-state.ts";
import { nextTurn } from "../../../src/domain/next-turn.ts";
import type { LogRecord, OwnedPartition } from "../../../src/domain/log.ts";
import { heldClock } from "../../support/held-clock.ts";
import { collect, record, text } from "../../support/log-consumer.ts";
import { systemClock } from "../../support/log-fakes.ts";
import { faultyStore, openTestLog, temporaryDir } from "../../support/log-lmdb.ts";
import { makeSilentLogger } from "../../support/silent-logger.ts";
import { readAllAttempts } from "../../support/read-all-attempts.ts";
import { until } from "../../support/wait-for.ts";

it("an owner that loses its partition before it has begun gets no record, and ends only after it has begun", async () => {
  await using dir = await temporaryDir();
  await using log = await openTestLog(dir.path, { partitions: 1 });
  await log.append([record("events", 0, "for the next owner")]);
  let owned: OwnedPartition | null = null;
  let begin = () => {};
  const steps: string[] = [];
  const handedOver: LogRecord[] = [];
  const slow = await log.consume({
    group: "owners",
    topics: ["events"],
    onAssigned: async (partition) => {
      owned = partition;
      await new Promise<void>((resolve) => {
        begin = resolve;
      });
      steps.push("begun");
    },
    onRevoked: async () => {
      // Time in which records would flow, if they did.
      for (let turn = 0; turn < 20; turn += 1) await nextTurn();
      steps.push("ended");
    },
    onRecords: (_partition, _topic, records) => {
      handedOver.push(...records);
    },
    onError: (error) => {
      throw error;
    },
  });
  await until(() => owned !== null, "the assignment");
  const left = slow[Symbol.asyncDispose]();
  await until(() => owned?.owned() === false, "the end of ownership");
  begin();
  await left;
  await using next = await collect(log, {
    group: "owners",
    topics: ["events"],
    deadlineMs: 20_000,
  });
  expect(await next.received(1)).toHaveLength(1);
  expect(handedOver).toEqual([]);
  expect(steps).toEqual(["begun", "ended"]);
});

it("an owner gets no record any more once its ownership has ended, though one was about to be handed over", async () => {
  await using dir = await temporaryDir();
  await using log = await openTestLog(dir.path, { partitions: 1 });
  const handedOver: boolean[] = [];
  const consumer = await collect(log, {
    group: "owners",
    topics: ["events"],
    deadlineMs: 20_000,
    onRecords: (partition) => {
      handedOver.push(partition.owned());
    },
    onRevoked: async () => {
      for (let turn = 0; turn < 20; turn += 1) await nextTurn();
    },
  });
  await log.append([record("events", 0, "first")]);
  await consumer.received(1);
  await log.append([record("events", 0, "second")]);
  await consumer[Symbol.asyncDispose]();
  expect(handedOver).toEqual([true]);
});

it("an owner that does not end loses its partition after five seconds all the same: the next one starts, and what it commits then does not count", async () => {
  await using dir = await temporaryDir();
  const { clock, due, delaysMs } = heldClock();
  await using log = await openTestLog(dir.path, { partitions: 1, clock });
  await log.append([record("events", 0, "unfinished")]);
  const options = { group: "owners", topics: ["events"] as const, deadlineMs: 20_000 };
  const stuck = await collect(log, { ...options, onRevoked: () => new Promise(() => {}) });
  await stuck.received(1);
  const owned = stuck.owned.get(0)!;
  const left = stuck[Symbol.asyncDispose]();
  await due((delayMs) => delayMs === 5_000);
  await left;
  expect([owned.owned(), owned.exclusive()]).toEqual([false, false]);
  await owned.commit([{ topic: "events", offset: 1 }]);
  const next = await collect(log, options);
  expect((await next.received(1)).map(text)).toEqual(["unfinished"]);
  await next[Symbol.asyncDispose]();
  expect(delaysMs()).toEqual([]);
});

it("partitions whose owners do not end are waited for together: five seconds for each would be four minutes", async () => {
  await using dir = await temporaryDir();
  const { clock, due, delaysMs } = heldClock();
  await using log = await openTestLog(dir.path, { partitions: 2, clock });
  const stuck = await collect(log, {
    group: "owners",
    topics: ["events"],
    deadlineMs: 20_000,
    onRevoked: () => new Promise(() => {}),
  });
  await until(() => stuck.owned.size === 2, "both partitions");
  const left = stuck[Symbol.asyncDispose]();
  await until(() => delaysMs().length === 2, "both are waited for");
  for (let owner = 0; owner < 2; owner += 1) await due((delayMs) => delayMs === 5_000);
  await left;
});

it("an owner that fails as it ends is told so, and the next one starts", async () => {
  await using dir = await temporaryDir();
  await using log = await openTestLog(dir.path, { partitions: 1 });
  const options = { group: "owners", topics: ["events"] as const, deadlineMs: 20_000 };
  const failing = await collect(log, {
    ...options,
    onRevoked: () => Promise.reject(new Error("cannot end")),
  });
  await until(() => failing.owned.size === 1, "the assignment");
  await failing[Symbol.asyncDispose]();
  expect(failing.errors.map(({ message }) => message)).toEqual(["cannot end"]);
  await using next = await collect(log, options);
  await log.append([record("events", 0, "next")]);
  expect(await next.received(1)).toHaveLength(1);
});

it("a consumer that leaves while another still hands partitions over to it gets none of them", async () => {
  await using dir = await temporaryDir();
  await using log = await openTestLog(dir.path, { partitions: 2 });
  const options = { group: "owners", topics: ["events"] as const, deadlineMs: 20_000 };
  let ends = 0;
  let end = () => {};
  const ended = new Promise<void>((resolve) => {
    end = resolve;
  });
  await using stays = await collect(log, {
    ...options,
    onRevoked: () => {
      ends += 1;
      return ended;
    },
  });
  await until(() => stays.owned.size === 2, "both partitions");
  const assigned: number[] = [];
  const leaves = await collect(log, {
    ...options,
    onAssigned: async ({ partition }) => void assigned.push(partition),
  });
  await until(() => ends === 1, "one partition is handed over");
  const left = leaves[Symbol.asyncDispose]();
  end();
  await left;
  await until(() => stays.owned.size === 2, "both partitions again");
  expect(assigned).toEqual([]);
});

it("a partition whose consumer failed is assigned again after a second, once, and not when the log is closed before", async () => {
  await using dir = await temporaryDir();
  const { clock, due, delaysMs } = heldClock();
  const log = await openTestLog(dir.path, { partitions: 1, clock });
  const topics = ["events", "tasks"] as const;
  await log.append(topics.map((topic) => record(topic, 0, topic)));
  let assigned = 0;
  const failing = await collect(log, {
    group: "owners",
    topics,
    deadlineMs: 20_000,
    onAssigned: async () => void (assigned += 1),
    // Both topics' records are under way when the first of them fails.
    onRecords: async () => {
      await nextTurn();
      await nextTurn();
      throw new Error("cannot take them");
    },
  });
  for (const round of [1, 2]) {
    await failing.received(2 * round);
    await until(() => delaysMs().length > 0, "a rest");
    for (let turn = 0; turn < 20; turn += 1) await nextTurn();
    expect(assigned).toBe(round);
    expect(failing.errors).toHaveLength(round);
    expect(delaysMs()).toEqual([1_000]);
    if (round === 1) await due((delayMs) => delayMs === 1_000);
  }
  await log[Symbol.asyncDispose]();
  expect(delaysMs()).toEqual([]);
});

it("an owner that cannot begin gets no record, is told so, and begins again a second later", async () => {
  await using dir = await temporaryDir();
  const { clock, due } = heldClock();
  await using log = await openTestLog(dir.path, { partitions: 1, clock });
  await log.append([record("events", 0, "waits")]);
  let begun = 0;
  await using consumer = await collect(log, {
    group: "owners",
    topics: ["events"],
    deadlineMs: 20_000,
    onAssigned: async () => {
      begun += 1;
      if (begun === 1) throw new Error("cannot begin");
    },
  });
  await until(() => consumer.errors.length === 1, "the failure");
  for (let turn = 0; turn < 20; turn += 1) await nextTurn();
  expect(consumer.records).toEqual([]);
  await due((delayMs) => delayMs === 1_000);
  expect((await consumer.received(1)).map(text)).toEqual(["waits"]);
  expect(consumer.errors.map(({ message }) => message)).toEqual(["cannot begin"]);
});

it("an owner that failed with one topic gets nothing of the others either until it has begun anew", async () => {
  await using dir = await temporaryDir();
  const { clock, due } = heldClock();
  await using log = await openTestLog(dir.path, { partitions: 1, clock });
  let fails = true;
  await using consumer = await collect(log, {
    group: "owners",
    topics: ["events", "tasks"],
    deadlineMs: 20_000,
    onRecords: () => {
      if (fails) throw new Error("cannot take them");
    },
  });
  await log.append([record("events", 0, "event")]);
  await until(() => consumer.errors.length === 1, "the failure");
  expect(consumer.owned.get(0)!.owned()).toBe(false);
  await log.append([record("tasks", 0, "task")]);
  for (let turn = 0; turn < 20; turn += 1) await nextTurn();
  expect(consumer.records.map(text)).toEqual(["event"]);
  fails = false;
  await due((delayMs) => delayMs === 1_000);
  await consumer.received(3);
  expect(consumer.records.slice(1).map(text).toSorted()).toEqual(["event", "task"]);
});

it("an owner that failed and then left ends once, not again when its rest is over", async () => {
  await using dir = await temporaryDir();
  const { clock, due } = heldClock();
  await using log = await openTestLog(dir.path, { partitions: 1, clock });
  await log.append([record("events", 0, "event")]);
  let ends = 0;
  const options = { group: "owners", topics: ["events"] as const, deadlineMs: 20_000 };
  const failing = await collect(log, {
    ...options,
    onRecords: () => Promise.reject(new Error("cannot take them")),
    onRevoked: async () => void (ends += 1),
  });
  await until(() => failing.errors.length === 1, "the failure");
  await failing[Symbol.asyncDispose]();
  expect(ends).toBe(1);
  await using next = await collect(log, options);
  await next.received(1);
  await due((delayMs) => delayMs === 1_000);
  for (let turn = 0; turn < 20; turn += 1) await nextTurn();
  expect(ends).toBe(1);
  expect(next.owned.get(0)!.owned()).toBe(true);
});

const NEW = { group: "new", topics: ["attempts"], deadlineMs: 20_000 } as const;

it("a group that could not be written down at first is with its next start: after a restart, what it had not read was trimmed", async () => {
  await using dir = await temporaryDir();
  const faults = faultyStore();
  {
    await using log = await openTestLog(dir.path, { partitions: 1, wrapStore: faults.wrap });
    await log.append([record("attempts", 0, "unread")]);
    await readAllAttempts(log);
    faults.failNext();
    await expect(collect(log, NEW)).rejects.toMatchObject({ code: "log_unavailable" });
    await (await collect(log, NEW))[Symbol.asyncDispose]();
  }
  await using log = await openTestLog(dir.path, { partitions: 1, retentionMs: -1 });
  expect(await log.trim()).toBe(0);
});

it("a commit that could not be written does not count: nothing is trimmed for it, and its records are handed over again", async () => {
  await using dir = await temporaryDir();
  const faults = faultyStore();
  const options = { partitions: 1, retentionMs: -1, wrapStore: faults.wrap };
  await using log = await openTestLog(dir.path, options);
  await log.append([record("attempts", 0, "read")]);
  {
    await using consumer = await collect(log, NEW);
    await consumer.received(1);
    faults.failNext();
    const commit = consumer.owned.get(0)!.commit([{ topic: "attempts", offset: 1 }]);
    await expect(commit).rejects.toMatchObject({ code: "log_unavailable" });
    expect(await consumer.consumer.lag()).toEqual(new Map([["attempts", 1]]));
    expect(await log.trim()).toBe(0);
  }
  await using again = await collect(log, NEW);
  expect(await again.received(1)).toHaveLength(1);
});

it("a log that is closed lets its owners end first, and what they commit then counts", async () => {
  await using dir = await temporaryDir();
  const log = await openTestLog(dir.path, { partitions: 1 });
  await log.append([record("events", 0, "done at the end")]);
  const options = { group: "owners", topics: ["events"] as const, deadlineMs: 20_000 };
  const consumer = await collect(log, {
    ...options,
    onRevoked: (partition) => partition.commit([{ topic: "events", offset: 1, metadata: "ended" }]),
  });
  await consumer.received(1);
  await log[Symbol.asyncDispose]();
  await using again = await openTestLog(dir.path, { partitions: 1 });
  await using next = await collect(again, options);
  await until(() => next.owned.size === 1, "the assignment");
  expect(next.owned.get(0)!.committed("events")).toEqual({ offset: 1, metadata: "ended" });
});

class CountedStream extends StreamState {
  listeners = 0;

  override listen(listener: () => void): () => void {
    this.listeners += 1;
    const stop = super.listen(listener);
    return () => {
      this.listeners -= 1;
      stop();
    };
  }
}

it("an owner that has ended is not told of appends any more: each that ever was would be, at every append", () => {
  const stream = new CountedStream("events", 0);
  const pump = new Pump({
    stream,
    store: {} as CommitStore,
    queue: new RunQueue(systemClock),
    fromOffset: 0,
    maxBatchBytes: 1,
    hand: () => {},
    failed: () => {},
  });
  expect(stream.listeners).toBe(1);
  pump.stop();
  expect(stream.listeners).toBe(0);
});

it("an offset that is none is not committed: the next owner could not begin at it", async () => {
  await using dir = await temporaryDir();
  await using log = await openTestLog(dir.path, { partitions: 1 });
  await using consumer = await collect(log, NEW);
  await until(() => consumer.owned.size === 1, "the assignment");
  const owned = consumer.owned.get(0)!;
  for (const offset of [-1, 0.5, Number.NaN])
    await expect(owned.commit([{ topic: "attempts", offset }])).rejects.toBeInstanceOf(RangeError);
  await consumer[Symbol.asyncDispose]();
  await using again = await collect(log, NEW);
  await until(() => again.owned.size === 1, "the assignment");
  expect(again.owned.get(0)!.committed("attempts")).toBeNull();
});

it("what a group was to read stays when it comes back for other topics: an earlier version may be started again", async () => {
  await using dir = await temporaryDir();
  await using log = await openTestLog(dir.path, { partitions: 1, retentionMs: -1 });
  await log.append([record("attempts", 0, "unread")]);
  await readAllAttempts(log);
  for (const topics of [["attempts"], ["tasks"]] as const)
    await (await collect(log, { ...NEW, topics }))[Symbol.asyncDispose]();
  expect(await log.trim()).toBe(0);
  await using consumer = await collect(log, NEW);
  expect((await consumer.received(1)).map(text)).toEqual(["unread"]);
});

it("regression: a group that had committed more than the log holds read nothing that came afterwards, and nothing told of it", async () => {
  await using dir = await temporaryDir();
  const reader = { group: "delivery", topics: ["events", "tasks"], deadlineMs: 20_000 } as const;
  {
    await using log = await openTestLog(dir.path, { partitions: 1 });
    await log.append([record("events", 0, "done"), record("tasks", 0, "not done")]);
    await using owner = await collect(log, reader);
    await owner.received(2);
    await owner.owned.get(0)!.commit([{ topic: "events", offset: 500, metadata: "claim" }]);
  }

  const told: object[] = [];
  const logger = makeSilentLogger((level, message, fields) => {
    if (level === "error") told.push({ message, ...fields });
  });
  await using log = await openTestLog(dir.path, { partitions: 1, logger });
  await using owner = await collect(log, reader);
  await log.append([record("events", 0, "after it")]);
  expect((await owner.received(2)).map((one) => text(one)).toSorted()).toEqual([
    "after it",
    "not done",
  ]);
  expect(owner.owned.get(0)!.committed("events")).toEqual({ offset: 1, metadata: "claim" });
  const why = "the log ends before: going on from its end";
  const ahead = { group: "delivery", topic: "events", partition: 0, committed: 500, end: 1, why };
  expect(told).toEqual([{ message: "log.group_ahead", ...ahead }]);
});
