import { expect, it } from "vitest";
import { NO_METRICS } from "../../../src/adapters/lmdb/metrics.ts";
import type { LmdbLog } from "../../../src/adapters/lmdb/open-lmdb-log.ts";
import type { CommitStore } from "../../../src/adapters/lmdb/store.ts";
import { heldClock } from "../../support/held-clock.ts";
import { collect, record, text } from "../../support/log-consumer.ts";
import type { Collector } from "../../support/log-consumer.ts";
import { systemClock } from "../../support/log-fakes.ts";
import { faultyStore, openTestLog, temporaryDir, withOverrides } from "../../support/log-lmdb.ts";
import { readAllAttempts } from "../../support/read-all-attempts.ts";
import { makeSilentLogger } from "../../support/silent-logger.ts";
import { until } from "../../support/wait-for.ts";

const PARTITIONS = 8;
const COMMITS = 700;

it("a trim of much goes in many small steps, and appends go on between them", async () => {
  await using dir = await temporaryDir();
  const removed: number[] = [];
  await using log = await openTestLog(dir.path, {
    partitions: PARTITIONS,
    retentionMs: -1,
    wrapStore: (store) =>
      withOverrides(store, {
        commit: (commit) => {
          const { removedBlobs } = commit;
          if (removedBlobs.length > 0) removed.push(removedBlobs.length);
          return store.commit(commit);
        },
      }),
  });
  // Some streams have a record in every commit, others in one of several.
  for (let commit = 0; commit < COMMITS; commit += 1) {
    const partitions = Array.from({ length: PARTITIONS }, (_, n) => n);
    await log.append(
      partitions
        .filter((partition) => commit % (partition + 1) === 0)
        .map((partition) => record("attempts", partition, `${commit}`)),
    );
  }
  await readAllAttempts(log);
  const ended: string[] = [];
  const trim = log.trim().then((rows) => {
    ended.push("trim");
    return rows;
  });
  await log.append([record("attempts", 0, "meanwhile")]).then(() => ended.push("append"));
  const rows = await trim;
  expect(ended).toEqual(["append", "trim"]);
  const inPartition = (partition: number) => Math.ceil(COMMITS / (partition + 1));
  const total = Array.from({ length: PARTITIONS }, (_, n) => inPartition(n)).reduce(
    (a, b) => a + b,
  );
  expect(rows).toBeGreaterThanOrEqual(total);
  expect(Math.max(...removed)).toBeLessThanOrEqual(128);
  // Every blob is removed once: none is left in part, none removed twice.
  expect(removed.reduce((sum, blobs) => sum + blobs)).toBe(COMMITS + (rows - total));
});

it("a trim at its time rests after each step: appends waited behind a hundred steps, one right after the other", async () => {
  await using dir = await temporaryDir();
  let removed = 0;
  const { clock, due } = heldClock();
  const intervalMs = 600_000;
  const log = await openTestLog(dir.path, {
    partitions: 1,
    retentionMs: -1,
    clock,
    trimIntervalMs: intervalMs,
    wrapStore: (store) =>
      withOverrides(store, {
        commit: async (commit) => {
          await store.commit(commit);
          removed += commit.removedBlobs.length;
        },
      }),
  });
  for (let commit = 0; commit < 300; commit += 1)
    await log.append([record("attempts", 0, `${commit}`)]);
  await readAllAttempts(log);
  const isRest = (delayMs: number): boolean => delayMs !== intervalMs;
  await due((delayMs) => delayMs === intervalMs);
  await until(() => removed > 0, "a first step");
  const first = removed;
  expect(first).toBeLessThanOrEqual(128);
  await log.append([record("attempts", 0, "meanwhile")]);
  expect(removed).toBe(first);
  await due(isRest);
  await until(() => removed > first, "a second step");
  const second = removed;
  expect(second).toBeLessThan(300);
  // To close the log does not wait for the end of a rest.
  await log[Symbol.asyncDispose]();
  expect(removed).toBe(second);
});

it("a group that comes while much is trimmed keeps what it has not read", async () => {
  await using dir = await temporaryDir();
  await using log = await openTestLog(dir.path, { partitions: 1, retentionMs: -1 });
  for (let commit = 0; commit < COMMITS; commit += 1)
    await log.append([record("attempts", 0, `${commit}`)]);
  await readAllAttempts(log);
  const trim = log.trim();
  await using consumer = await collect(log, {
    group: "new",
    topics: ["attempts"],
    deadlineMs: 20_000,
  });
  const trimmed = await trim;
  expect(trimmed).toBeLessThan(COMMITS / 2);
  const records = await consumer.received(COMMITS - trimmed);
  expect(records[0]!.offset).toBe(trimmed);
  expect(await log.trim()).toBe(0);
});

it("what one group has not read stays, whatever lies beside it in the same blobs", async () => {
  await using dir = await temporaryDir();
  const open = () => openTestLog(dir.path, { partitions: PARTITIONS, retentionMs: -1 });
  let log = await open();
  const reading = { group: "g", topics: ["events"] as const, deadlineMs: 20_000 };
  const consumer = await collect(log, reading);
  for (let commit = 0; commit < 300; commit += 1)
    await log.append(
      Array.from({ length: PARTITIONS }, (_, partition) =>
        record("events", partition, `${partition}-${commit}`),
      ),
    );
  await consumer.received(300 * PARTITIONS);
  for (const [partition, owned] of consumer.owned)
    await owned.commit([{ topic: "events", offset: partition * 40 }]);
  // Each partition has reached a different offset.
  expect(await log.trim()).toBe(40 * (0 + 1 + 2 + 3 + 4 + 5 + 6 + 7));
  await log[Symbol.asyncDispose]();
  log = await open();
  expect(await log.trim()).toBe(0);
  const again = await collect(log, reading);
  const left = Array.from({ length: PARTITIONS }, (_, partition) => 300 - partition * 40);
  await again.received(left.reduce((a, b) => a + b));
  for (const { partition, offset, value } of again.records)
    expect(Buffer.from(value).toString()).toBe(`${partition}-${offset}`);
  await log[Symbol.asyncDispose]();
});

it("events and replays stay while no group has come for them: where the delivery role had not run yet they went after an hour", async () => {
  await using dir = await temporaryDir();
  await using log = await openTestLog(dir.path, { partitions: 1, retentionMs: -1 });
  const topics = ["events", "tasks", "attempts"] as const;
  await log.append(topics.map((topic) => record(topic, 0, "answered, or replayed")));
  await log.trim();
  await using consumer = await collect(log, { group: "late", topics, deadlineMs: 20_000 });
  expect(await consumer.received(3)).toHaveLength(3);
});

it("held records go once their owner, who reads them on the side, has committed past them: they stayed for ever", async () => {
  await using dir = await temporaryDir();
  await using log = await openTestLog(dir.path, { partitions: 1, retentionMs: -1 });
  await using consumer = await collect(log, {
    group: "owner",
    topics: ["events"],
    sideTopics: ["held"],
    deadlineMs: 20_000,
  });
  for (let commit = 0; commit < 10; commit += 1)
    await log.append([record("events", 0, `${commit}`), record("held", 0, `${commit}`)]);
  await consumer.received(10);
  expect(await log.trim()).toBe(0);
  await consumer.owned.get(0)!.commit([{ topic: "held", offset: 7 }]);
  expect(await log.trim()).toBe(7);
  const left: number[] = [];
  for await (const records of consumer.owned.get(0)!.read("held", 0))
    left.push(...records.map(({ offset }) => offset));
  expect(left).toEqual([7, 8, 9]);
});

/** Appends ten attempts, each a commit of its own, that a recorder is past but for two; `owner` reads attempts on the side. */
async function recordAttempts(log: LmdbLog) {
  const recorder = await collect(log, {
    group: "recorder",
    topics: ["attempts"],
    deadlineMs: 20_000,
  });
  const owner = await collect(log, {
    group: "owner",
    topics: ["events"],
    sideTopics: ["attempts"],
    deadlineMs: 20_000,
  });
  for (let commit = 0; commit < 10; commit += 1)
    await log.append([record("attempts", 0, `${commit}`)]);
  await recorder.received(10);
  await recorder.owned.get(0)!.commit([{ topic: "attempts", offset: 8 }]);
  await until(() => owner.owned.size === 1, "the owner's partition");
  return owner.owned.get(0)!;
}

it("what a group reads on the side stays until it has committed past that, too: its next owner would not know what had ended", async () => {
  await using dir = await temporaryDir();
  await using log = await openTestLog(dir.path, { partitions: 1, retentionMs: -1 });
  const owned = await recordAttempts(log);
  await owned.commit([{ topic: "attempts", offset: 3 }]);
  expect(await log.trim()).toBe(3);
  await owned.commit([{ topic: "attempts", offset: 10 }]);
  expect(await log.trim()).toBe(5);
});

it("what a group reads on the side and has not committed yet stays for a day", async () => {
  await using dir = await temporaryDir();
  let aheadMs = 0;
  const clock = { ...systemClock, now: () => systemClock.now() + aheadMs };
  await using log = await openTestLog(dir.path, { partitions: 1, retentionMs: -1, clock });
  await recordAttempts(log);
  aheadMs = 23 * 3_600_000;
  expect(await log.trim()).toBe(0);
  aheadMs = 25 * 3_600_000;
  expect(await log.trim()).toBe(8);
});

it("what is gone is no lag of a group that comes later", async () => {
  await using dir = await temporaryDir();
  await using log = await openTestLog(dir.path, { partitions: 1, retentionMs: -1 });
  const append = () => log.append([record("attempts", 0, "ended")]);
  for (let commit = 0; commit < 5; commit += 1) await append();
  await readAllAttempts(log);
  expect(await log.trim()).toBe(5);
  await append();
  await using late = await collect(log, {
    group: "late",
    topics: ["attempts"],
    deadlineMs: 20_000,
  });
  await late.received(1);
  expect(await late.consumer.lag()).toEqual(new Map([["attempts", 1]]));
});

it("what was trimmed in part goes when the rest is trimmed, and is forgotten: what is written under its number after a restart would go while half of it is needed", async () => {
  await using dir = await temporaryDir();
  let removed = 0;
  const wrapStore = (store: CommitStore): CommitStore =>
    withOverrides(store, {
      commit: (commit) => {
        removed += commit.removedBlobs.length;
        return store.commit(commit);
      },
    });
  const reading = { group: "g", topics: ["events"] as const, deadlineMs: 20_000 };
  for (const offset of [0, 1]) {
    await using log = await openTestLog(dir.path, { partitions: 2, retentionMs: -1, wrapStore });
    await using consumer = await collect(log, reading);
    await log.append([record("events", 0, `0-${offset}`), record("events", 1, `1-${offset}`)]);
    await consumer.received(2);
    const commit = (partition: number) =>
      consumer.owned.get(partition)!.commit([{ topic: "events", offset: offset + 1 }]);
    await commit(0);
    expect(await log.trim()).toBe(1);
    expect(removed).toBe(offset);
    const left: string[] = [];
    for await (const records of consumer.owned.get(1)!.read("events", 0))
      left.push(...records.map(text));
    expect(left).toEqual([`1-${offset}`]);
    await commit(1);
    expect(await log.trim()).toBe(1);
    expect(removed).toBe(offset + 1);
  }
});

it("limits stay even where their reader has committed past them: the latest of every key is needed for ever", async () => {
  await using dir = await temporaryDir();
  await using log = await openTestLog(dir.path, { partitions: 1, retentionMs: -1 });
  await using consumer = await collect(log, {
    group: "g",
    topics: ["events"],
    sideTopics: ["limits"],
    deadlineMs: 20_000,
  });
  await log.append([record("limits", 0, "latest")]);
  await until(() => consumer.owned.size === 1, "the assignment");
  await consumer.owned.get(0)!.commit([{ topic: "limits", offset: 1 }]);
  expect(await log.trim()).toBe(0);
  const left: string[] = [];
  for await (const records of consumer.owned.get(0)!.read("limits", 0))
    left.push(...records.map(text));
  expect(left).toEqual(["latest"]);
});

it("the log is trimmed at each of its times, also after one at which it could not be", async () => {
  await using dir = await temporaryDir();
  const { clock, due } = heldClock();
  const faults = faultyStore();
  const intervalMs = 600_000;
  const trimmed: number[] = [];
  const warned: string[] = [];
  await using log = await openTestLog(dir.path, {
    partitions: 1,
    retentionMs: -1,
    clock,
    trimIntervalMs: intervalMs,
    wrapStore: faults.wrap,
    logger: makeSilentLogger((level, message) => {
      if (level === "warn") warned.push(message);
    }),
    metrics: { ...NO_METRICS, trimmed: (regions) => void trimmed.push(regions) },
  });
  for (const round of [1, 2, 3]) {
    await log.append([record("attempts", 0, "read")]);
    await readAllAttempts(log);
    if (round === 2) faults.failNext();
    await due((delayMs) => delayMs === intervalMs);
    if (round === 2) await until(() => warned.length > 0, "the failure is told");
    else await until(() => trimmed.length > 0, "a trim");
    expect(trimmed.splice(0)).toEqual([[1], [], [2]][round - 1]);
    expect(warned.splice(0)).toEqual(round === 2 ? ["log.trim_failed"] : []);
  }
});

/** Reads all limits of the log's one partition from an offset on, and checks that each holds its offset. */
async function readLimits(
  consumer: Collector,
  fromOffset: number,
): Promise<[key: string, offset: number][]> {
  await until(() => consumer.owned.size === 1, "the assignment");
  const read: [string, number][] = [];
  for await (const records of consumer.owned.get(0)!.read("limits", fromOffset))
    for (const one of records) {
      expect(text(one).trim()).toBe(`${one.offset}`);
      read.push([one.key, one.offset]);
    }
  return read;
}

const READS_LIMITS = {
  group: "g",
  topics: ["events"],
  sideTopics: ["limits"],
  deadlineMs: 20_000,
} as const;

it("what a compaction leaves is in the order of the offsets, and is read from any of them; the rest is removed", async () => {
  await using dir = await temporaryDir();
  let removed = 0;
  await using log = await openTestLog(dir.path, {
    partitions: 1,
    retentionMs: -1,
    wrapStore: (store) =>
      withOverrides(store, {
        commit: (commit) => {
          removed += commit.removedBlobs.length;
          return store.commit(commit);
        },
      }),
  });
  // The keys written first are written again last; one of them is never.
  const keys = Array.from({ length: 70 }, (_, n) => `k${n < 7 ? n : 6 - (n % 6)}`);
  const latest = new Map(keys.map((key, offset) => [key, offset]));
  for (const [offset, key] of keys.entries())
    await log.append([record("limits", 0, `${offset}`, key)]);
  await log.trim();
  expect(removed).toBe(keys.length);
  await using consumer = await collect(log, READS_LIMITS);
  const left = [...latest].toSorted(([, one], [, other]) => one - other);
  expect(left[0]).toEqual(["k0", 0]);
  for (const from of [0, 1, 63, 65, 67, 69, 70])
    expect(await readLimits(consumer, from)).toEqual(left.filter(([, offset]) => offset >= from));
});

it("a compaction that leaves much takes a number for each of its blobs: the next commit would overwrite them", async () => {
  await using dir = await temporaryDir();
  const offsets = Array.from({ length: 70 }, (_, offset) => offset);
  {
    await using log = await openTestLog(dir.path, { partitions: 1, retentionMs: -1 });
    for (const offset of offsets) {
      const sizeBytes = offset < 66 ? 10 : 700_000;
      await log.append([record("limits", 0, `${offset}`.padEnd(sizeBytes), `k${offset % 4}`)]);
    }
    await log.trim();
    for (const offset of [70, 71]) await log.append([record("limits", 0, `${offset}`, "more")]);
  }
  await using log = await openTestLog(dir.path, { partitions: 1 });
  await using consumer = await collect(log, READS_LIMITS);
  const read = await readLimits(consumer, 0);
  expect(read.map(([, offset]) => offset)).toEqual([66, 67, 68, 69, 70, 71]);
});
