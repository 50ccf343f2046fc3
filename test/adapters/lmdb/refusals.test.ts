import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import fc from "fast-check";
import { expect, it, vi } from "vitest";
import { assignPartitions } from "../../../src/adapters/lmdb/groups/assign-partitions.ts";
import { CommitRefused } from "../../../src/adapters/lmdb/commit/commit-thread.ts";
import { openEnvironment } from "../../../src/adapters/lmdb/environment.ts";
import { seqKey } from "../../../src/adapters/lmdb/layout.ts";
import { packCommit } from "../../../src/adapters/lmdb/commit/pack-commit.ts";
import { MAX_SEGMENT_COMMIT_BYTES } from "../../../src/adapters/lmdb/segments/segments.ts";
import { openStore } from "../../../src/adapters/lmdb/store.ts";
import type { CommitStore } from "../../../src/adapters/lmdb/store.ts";
import { LogError } from "../../../src/domain/log.ts";
import type { Log, Topic } from "../../../src/domain/log.ts";
import { collect, record, text } from "../../support/log-consumer.ts";
import {
  faultyStore,
  openTestLog,
  storeIn,
  temporaryDir,
  withOverrides,
} from "../../support/log-lmdb.ts";

it("refuses with log_full while too many bytes are under way, and takes appends again afterwards", async () => {
  await using dir = await temporaryDir();
  const faults = faultyStore();
  await using log = await openTestLog(dir.path, { maxPendingBytes: 1_000, wrapStore: faults.wrap });
  faults.hold();
  const first = log.append([record("events", 0, "x".repeat(600))]);
  await expect(log.append([record("events", 0, "y".repeat(600))])).rejects.toMatchObject({
    code: "log_full",
    retryable: true,
  });
  faults.release();
  await first;
  const [position] = await log.append([record("events", 0, "z".repeat(600))]);
  expect(position!.offset).toBe(1);
});

it("regression: what deliveries append leaves half of the room to webhooks: retries of large bodies at receivers that hang filled all of it, and ingest answered 503", async () => {
  await using dir = await temporaryDir();
  const faults = faultyStore();
  await using log = await openTestLog(dir.path, { maxPendingBytes: 1_000, wrapStore: faults.wrap });
  faults.hold();
  const taken: Promise<unknown>[] = [];
  const append = (topic: Topic, sizeBytes: number) => {
    const appended = log.append([record(topic, 0, "x".repeat(sizeBytes))]);
    taken.push(appended.catch(() => undefined));
    return appended;
  };
  const full = { code: "log_full" };
  void append("delay-1s", 200);
  void append("tasks", 200);
  await expect(append("delay-4s", 200)).rejects.toMatchObject(full);
  void append("events", 400);
  await expect(append("events", 400)).rejects.toMatchObject(full);
  faults.release();
  await Promise.all(taken);
  // Conversely, webhooks may take all of it; and an append larger than the share is taken on its own.
  faults.hold();
  void append("events", 450);
  void append("events", 450);
  await expect(append("tasks", 200)).rejects.toMatchObject(full);
  faults.release();
  await Promise.all(taken);
  await append("delay-1s", 5_000);
});

it("regression: takes one that is larger than the bound beside others, and others beside it: it was taken only when nothing was under way", async () => {
  await using dir = await temporaryDir();
  const faults = faultyStore();
  await using log = await openTestLog(dir.path, { maxPendingBytes: 1_000, wrapStore: faults.wrap });
  faults.hold();
  const first = log.append([record("events", 0, "x".repeat(300))]);
  const large = log.append([record("events", 0, "y".repeat(1_500))]);
  const last = log.append([record("events", 0, "z")]);
  await expect(log.append([record("events", 0, "y".repeat(1_500))])).rejects.toMatchObject({
    code: "log_full",
  });
  faults.release();
  const positions = await Promise.all([first, large, last]);
  expect(positions.map(([position]) => position!.offset)).toEqual([0, 1, 2]);
});

it("refuses a record over the limit and a partition that is not there, and nothing of the call is kept", async () => {
  await using dir = await temporaryDir();
  await using log = await openTestLog(dir.path, { maxRecordBytes: 100 });
  const call = [record("events", 0, "fits"), record("events", 0, "x".repeat(101))];
  await expect(log.append(call)).rejects.toMatchObject({ code: "log_record_too_large" });
  for (const partition of [9, log.partitions, -1, 1.5, Number.NaN])
    await expect(log.append([record("events", partition, "x")])).rejects.toBeInstanceOf(RangeError);
  const longKey = log.append([record("events", 0, "x", "k".repeat(65_536))]);
  await expect(longKey).rejects.toMatchObject({ code: "log_record_too_large" });
  expect(await log.append([record("events", 0, "first", "k".repeat(65_535))])).toEqual([
    { partition: 0, offset: 0 },
  ]);
});

it("has room again for what could not be written", async () => {
  await using dir = await temporaryDir();
  const faults = faultyStore();
  await using log = await openTestLog(dir.path, { maxPendingBytes: 1_000, wrapStore: faults.wrap });
  for (const topic of ["events", "tasks"] as const)
    for (let round = 0; round < 3; round += 1) {
      faults.failNext();
      const refused = log.append([record(topic, 0, "x".repeat(400))]);
      await expect(refused).rejects.toMatchObject({ code: "log_unavailable" });
    }
  const appended = (["events", "tasks"] as const).map((topic) =>
    log.append([record(topic, 0, "x".repeat(400))]),
  );
  expect(await Promise.all(appended)).toEqual([
    [{ partition: 0, offset: 0 }],
    [{ partition: 0, offset: 0 }],
  ]);
});

it("regression: records for which there is no memory are refused, and the next are taken: the log took nothing more", async () => {
  await using dir = await temporaryDir();
  await using log = await openTestLog(dir.path);
  using allocating = vi.spyOn(Buffer, "allocUnsafe");
  allocating.mockImplementationOnce(() => {
    throw new RangeError("Array buffer allocation failed");
  });
  await expect(log.append([record("events", 0, "first")])).rejects.toMatchObject({
    code: "log_unavailable",
    message: expect.stringContaining("Array buffer allocation failed"),
  });
  expect(await log.append([record("events", 0, "second")])).toEqual([{ partition: 0, offset: 0 }]);
});

it("what comes together is committed in parts that a segment takes: others go into the index's file, which never shrinks", async () => {
  await using dir = await temporaryDir();
  const sizes: number[] = [];
  const wrapStore = (store: CommitStore): CommitStore =>
    withOverrides(store, {
      commit: (commit) => {
        sizes.push(commit.packed.blobs.reduce((sum, { bytes }) => sum + bytes.length, 0));
        return store.commit(commit);
      },
    });
  await using log = await openTestLog(dir.path, { wrapStore });
  sizes.length = 0;
  const appended = Array.from({ length: 12 }, (_, n) =>
    log.append([{ topic: "events", key: "k", partition: 0, value: Buffer.alloc(1_000_000, n) }]),
  );
  const positions = await Promise.all(appended);
  expect(positions.map(([position]) => position!.offset)).toEqual(positions.map((_, n) => n));
  expect(Math.max(...sizes)).toBeLessThan(MAX_SEGMENT_COMMIT_BYTES);
  expect(sizes).toHaveLength(4);
});

it("starts over from what is on disk when the outcome of a commit is not known", async () => {
  await using dir = await temporaryDir();
  const faults = faultyStore();
  await using log = await openTestLog(dir.path, { wrapStore: faults.wrap });
  await log.append([record("events", 0, "a")]);
  faults.failNext(new LogError("log_outcome_unknown", "the commit thread died"));
  await expect(log.append([record("events", 0, "b")])).rejects.toMatchObject({
    code: "log_outcome_unknown",
  });
  const [position] = await log.append([record("events", 0, "c")]);
  expect(position!.offset).toBe(1);
});

it.each([
  ["store_locked_up", 1],
  ["not_written", 0],
] as const)(
  "regression: whether the files are opened anew is told by the commit thread's code (%s), not by words in its message",
  async (code, times) => {
    await using dir = await temporaryDir();
    const faults = faultyStore();
    let reopened = 0;
    const wrapStore = (store: CommitStore): CommitStore =>
      withOverrides(faults.wrap(store), {
        reopen: async () => {
          reopened += 1;
          await store.reopen();
        },
      });
    await using log = await openTestLog(dir.path, { wrapStore });
    const message = code === "not_written" ? "no room in /data/MDB_PANIC" : "a fatal error";
    faults.failNext(new CommitRefused({ code, message }));
    await expect(log.append([record("events", 0, "a")])).rejects.toMatchObject({
      code: "log_unavailable",
    });
    expect(await log.append([record("events", 0, "b")])).toEqual([{ partition: 0, offset: 0 }]);
    expect(reopened).toBe(times);
  },
);

it("commits nothing before the files were read again, when they hold more than was answered", async () => {
  await using dir = await temporaryDir();
  const faults = { losesAnswer: false, cannotReopen: false };
  const wrapStore = (store: CommitStore): CommitStore =>
    withOverrides(store, {
      commit: async (commit) => {
        await store.commit(commit);
        if (faults.losesAnswer) throw new LogError("log_outcome_unknown", "the thread died");
      },
      reopen: async () => {
        if (faults.cannotReopen) throw new Error("too many open files");
        await store.reopen();
      },
    });
  const append = (log: Log, ...values: string[]) =>
    log.append(values.map((value) => record("events", 0, value)));
  {
    await using log = await openTestLog(dir.path, { wrapStore });
    await append(log, "a");
    Object.assign(faults, { losesAnswer: true, cannotReopen: true });
    await expect(append(log, "b", "c", "d")).rejects.toMatchObject({ code: "log_outcome_unknown" });
    faults.losesAnswer = false;
    await expect(append(log, "e")).rejects.toMatchObject({ code: "log_unavailable" });
    faults.cannotReopen = false;
    expect(await append(log, "f")).toEqual([{ partition: 0, offset: 4 }]);
  }
  await using log = await openTestLog(dir.path);
  await using consumer = await collect(log, { group: "g", topics: ["events"], deadlineMs: 20_000 });
  expect((await consumer.received(5)).map(text)).toEqual(["a", "b", "c", "d", "f"]);
});

it("regression: what a commit of unknown outcome left in the log is handed over once the files were read again: it waited until something was appended after it", async () => {
  await using dir = await temporaryDir();
  let losesAnswer = false;
  const wrapStore = (store: CommitStore): CommitStore =>
    withOverrides(store, {
      commit: async (commit) => {
        await store.commit(commit);
        if (losesAnswer) throw new LogError("log_outcome_unknown", "the thread died");
      },
    });
  await using log = await openTestLog(dir.path, { wrapStore });
  await using consumer = await collect(log, { group: "g", topics: ["events"], deadlineMs: 20_000 });
  await log.append([record("events", 0, "a")]);
  await consumer.received(1);
  losesAnswer = true;
  await expect(log.append([record("events", 0, "b")])).rejects.toMatchObject({
    code: "log_outcome_unknown",
  });
  losesAnswer = false;
  expect((await consumer.received(2)).map(text)).toEqual(["a", "b"]);
});

it("a blob that is gone from the files is gone from memory once they are opened again: its number is given to another", async () => {
  await using dir = await temporaryDir();
  const options = { ...storeIn(dir.path), cacheBytes: 1_000_000 };
  const store = await openStore(options);
  const records = [
    { offset: 0, keyBytes: Buffer.from("k"), value: Buffer.from("old"), appendedAtMs: 1 },
  ];
  const streams = [{ topic: "events" as const, partition: 0, base: 0, next: 1, records }];
  const packed = packCommit(streams, 1);
  await store.commit({
    packed,
    groups: [],
    removedBelow: [],
    removedBlobs: [],
    refs: [],
    starts: [],
  });
  await store.reopen();
  const [row] = packed.rows;
  expect(store.region(row!)).not.toBeNull();
  const { root, places } = openEnvironment(options.path, options.mapSizeBytes);
  root.transactionSync(() => places.removeSync(seqKey(1)));
  await root.close();
  await store.reopen();
  expect(store.region(row!)).toBeNull();
  await store[Symbol.asyncDispose]();
});

it("says log_unavailable when the files cannot be opened", async () => {
  await using dir = await temporaryDir();
  await mkdir(join(dir.path, "data"));
  await writeFile(join(dir.path, "data/log.mdb"), "this is not a database".repeat(1_000));
  await expect(openTestLog(join(dir.path, "data"))).rejects.toMatchObject({
    code: "log_unavailable",
  });
});

it("splits partitions evenly and moves no more than it must", () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 60 }),
      fc.uniqueArray(fc.nat({ max: 20 }), { minLength: 1, maxLength: 8 }),
      fc.uniqueArray(fc.nat({ max: 20 }), { minLength: 1, maxLength: 8 }),
      (partitions, before, after) => {
        const current = assignPartitions(partitions, before, new Map());
        const next = assignPartitions(partitions, after, current);
        expect(next.size).toBe(partitions);
        const counts = after.map((m) => [...next.values()].filter((owner) => owner === m).length);
        expect(Math.max(...counts) - Math.min(...counts)).toBeLessThanOrEqual(1);
        expect(assignPartitions(partitions, after, next)).toEqual(next);
        const quota = Math.floor(partitions / after.length);
        for (const member of after) {
          const had = [...current.keys()].filter((partition) => current.get(partition) === member);
          const kept = had.filter((partition) => next.get(partition) === member);
          expect(kept.length).toBeGreaterThanOrEqual(Math.min(had.length, quota));
        }
      },
    ),
  );
});

it("regression: a log that cannot write its number of partitions is closed again: its commit thread went on", async () => {
  await using dir = await temporaryDir();
  const threads = (): number =>
    process.getActiveResourcesInfo().filter((name) => name === "MessagePort").length;
  const before = threads();
  const wrapStore = (store: CommitStore): CommitStore =>
    withOverrides(store, {
      commit: () => Promise.reject(new LogError("log_unavailable", "the disk is full")),
    });
  await expect(openTestLog(dir.path, { wrapStore })).rejects.toMatchObject({
    message: "the disk is full",
  });
  expect(threads()).toBe(before);
});
