import { expect, test } from "vitest";
import { pause } from "../../../src/domain/clock.ts";
import type { LogRecord, OwnedPartition } from "../../../src/domain/log.ts";
import {
  TopicRecorder,
  type TopicRecorderOptions,
} from "../../../src/pipeline/record/topic-recorder.ts";
import { makeSilentLogger } from "../../support/silent-logger.ts";
import { SimClock } from "../../support/sim-clock.ts";

const MIB = 1_048_576;
/** Longer than any record waits for others. */
const LINGER_MS = 1_000;
const FIRST_RETRY_MS = 250;
/** A row at which the recorder itself fails. */
const FAULTY = "faulty";

interface Commit {
  readonly offset: number;
  readonly metadata: string;
}

interface Hold {
  readonly promise: Promise<void>;
  readonly release: () => void;
}

/** Makes a recorder whose rows are the texts of its records, with commits and inserts that can be held back. */
function rig({ failAfterMs = 0 } = {}) {
  const clock = new SimClock();
  const inserts: string[][] = [];
  const commits: Commit[] = [];
  const lines: string[] = [];
  const counts: number[] = [];
  const faults: string[] = [];
  let restoredAfterMs = 0;
  let failures = 0;
  let commitFailure: Error | null = null;
  let held = null as Hold | null;
  let heldInsert = null as Hold | null;
  let insertMs = 0;
  let onIdle: (() => unknown) | null = null;
  const hold = (): Hold => {
    let release = (): void => undefined;
    const promise = new Promise<void>((resolve) => {
      release = resolve;
    });
    return { promise, release };
  };
  const decode: TopicRecorderOptions<string>["decode"] = ({ value }) =>
    value.length === 0 ? null : Buffer.from(value).toString().trim();
  const recorder = new TopicRecorder<string>({
    topic: "events",
    clock,
    logger: makeSilentLogger((level, message, fields) => {
      lines.push(`${level} ${message}`);
      if ("afterMs" in fields) restoredAfterMs = Number(fields.afterMs);
      if ("times" in fields) counts.push(Number(fields.times));
    }),
    metrics: { recorded: () => undefined, failed: () => undefined, skipped: () => undefined },
    decode,
    idOf: (row) => {
      if (row === FAULTY) throw new Error("a fault of its own");
      return row;
    },
    maxSpacingMs: 900,
    failed: ({ message }) => faults.push(message),
    insert: async (rows) => {
      failures -= 1;
      if (failures >= 0) {
        if (failAfterMs > 0) await pause(clock, failAfterMs);
        throw new Error("the store is away");
      }
      inserts.push([...rows]);
      await heldInsert?.promise;
      if (insertMs > 0) await pause(clock, insertMs);
    },
  });
  const own = (partition: number, metadata = ""): OwnedPartition =>
    ({
      partition,
      committed: () => ({ offset: 0, metadata }),
      commit: async ([entry]: readonly Commit[]) => {
        await held?.promise;
        if (commitFailure !== null) throw commitFailure;
        commits.push({ offset: entry!.offset, metadata: entry!.metadata });
        if (entry!.metadata !== "") return;
        onIdle?.();
        onIdle = null;
      },
    }) as unknown as OwnedPartition;
  return {
    clock,
    recorder,
    inserts,
    commits,
    lines,
    counts,
    faults,
    restoredAfterMs: () => restoredAfterMs,
    failInserts: (count: number) => (failures = count),
    failCommits: (error: Error) => (commitFailure = error),
    own,
    /** Sets how long an insert takes. */
    takeMs: (ms: number) => (insertMs = ms),
    holdCommits: () => (held = hold()).release,
    holdInserts: () => (heldInsert = hold()).release,
    /** Runs `work` at the commit of a batch that no other follows. */
    onceIdle: (work: () => unknown) => {
      onIdle = work;
    },
  };
}

const record = (offset: number, text: string, partition = 0): LogRecord => ({
  topic: "events",
  partition,
  offset,
  key: "",
  value: Buffer.from(text),
  appendedAtMs: 0,
});

test("a batch is inserted only once it is announced durably: after a crash it could not be repeated exactly", async () => {
  const { clock, recorder, inserts, own, holdCommits } = rig();
  const partition = own(0);
  recorder.assigned(partition);
  const release = holdCommits();
  void recorder.push(partition, [record(0, "a")]);
  await clock.advance(LINGER_MS);
  expect(inserts).toEqual([]);
  release();
  await clock.advance(0);
  expect(inserts).toEqual([["a"]]);
});

test("regression: a recorder that fails by itself stops and says so: it went on behind the rows that it had taken, which were never stored", async () => {
  const { clock, recorder, inserts, commits, faults, own } = rig();
  const partition = own(0);
  recorder.assigned(partition);
  void recorder.push(partition, [record(0, "a"), record(1, FAULTY)]);
  await clock.advance(LINGER_MS);
  expect(faults).toEqual(["a fault of its own"]);
  const room = recorder.push(partition, [record(2, "b".repeat(65 * MIB))]);
  await clock.advance(10 * LINGER_MS);
  expect(room).toBeUndefined();
  expect(inserts).toEqual([]);
  expect(commits.map(({ offset }) => offset)).toEqual([0]);
  await recorder[Symbol.asyncDispose]();
});

test("what comes just when the recorder falls idle is inserted without another push", async () => {
  for (let later = 0; later < 40; later += 1) {
    const { clock, recorder, inserts, commits, own, onceIdle } = rig();
    const partition = own(0);
    const pushLater = async (): Promise<void> => {
      for (let step = 0; step < later; step += 1) await Promise.resolve();
      void recorder.push(partition, [record(1, "b")]);
    };
    recorder.assigned(partition);
    void recorder.push(partition, [record(0, "a")]);
    onceIdle(pushLater);
    await clock.advance(3 * LINGER_MS);
    expect(inserts).toEqual([["a"], ["b"]]);
    expect(commits.at(-1)).toEqual({ offset: 2, metadata: "" });
  }
});

test("tells when rows go into the store again: only that they did not was told", async () => {
  const { clock, recorder, inserts, lines, failInserts, own } = rig();
  const partition = own(0);
  recorder.assigned(partition);
  failInserts(2);
  for (const [offset, text] of ["a", "b"].entries()) {
    void recorder.push(partition, [record(offset, text)]);
    await clock.advance(10 * LINGER_MS);
  }
  expect(inserts).toEqual([["a"], ["b"]]);
  expect(lines).toEqual(["warn record.failed", "info record.restored"]);
});

test("regression: why rows do not go into the store is told at once, then once a minute with how often: a store that was down for a night filled the log", async () => {
  const { clock, recorder, lines, counts, failInserts, own } = rig();
  const partition = own(0);
  recorder.assigned(partition);
  failInserts(Number.POSITIVE_INFINITY);
  void recorder.push(partition, [record(0, "a")]);
  await clock.advance(10 * 60_000);
  expect(lines).toHaveLength(10);
  expect(new Set(lines)).toEqual(new Set(["warn record.failed"]));
  expect(counts.slice(0, 3)).toEqual([1, 16, 12]);
});

test("regression: an outage of the store counts from the first insert that failed: one that hung for a minute was left out", async () => {
  const { clock, recorder, own, failInserts, restoredAfterMs } = rig({ failAfterMs: 60_000 });
  const partition = own(0);
  recorder.assigned(partition);
  failInserts(1);
  void recorder.push(partition, [record(0, "a")]);
  await clock.advance(70_000);
  expect(restoredAfterMs()).toBe(60_000 + FIRST_RETRY_MS);
});

test("records without rows are committed without an insert", async () => {
  const { clock, recorder, inserts, commits, own } = rig();
  const partition = own(0);
  recorder.assigned(partition);
  void recorder.push(partition, [record(0, ""), record(1, "")]);
  await clock.advance(LINGER_MS);
  expect(inserts).toEqual([]);
  expect(commits.at(-1)).toEqual({ offset: 2, metadata: "" });
});

test("above 64 MiB a partition waits, until an insert has made room", async () => {
  const { clock, recorder, own } = rig();
  const partition = own(0);
  recorder.assigned(partition);
  const large = (offset: number) => record(offset, `${offset}${" ".repeat(22 * MIB)}`);
  expect(recorder.push(partition, [large(0), large(1)])).toBeUndefined();
  let goesOn = false;
  const waited = Promise.resolve(recorder.push(partition, [large(2)])).then(() => (goesOn = true));
  await clock.advance(0);
  expect(goesOn).toBe(false);
  await clock.advance(LINGER_MS);
  expect(goesOn).toBe(true);
  await waited;
});

test("a batch ends at 50,000 rows, and at 32 MiB: a backlog would be one insert, written and sent anew with each failure", async () => {
  for (const [records, sizes] of [
    [Array.from({ length: 60_000 }, (_, offset) => record(offset, "row")), [50_000, 10_000]],
    [[0, 1, 2].map((offset) => record(offset, " ".repeat(22 * MIB))), [2, 1]],
  ] as const) {
    const { clock, recorder, inserts, own } = rig();
    const partition = own(0);
    recorder.assigned(partition);
    void recorder.push(partition, records);
    await clock.advance(3 * LINGER_MS);
    expect(inserts.map((rows) => rows.length)).toEqual(sizes);
  }
});

test("a batch that follows at once is announced with the commit of the one before: after a crash it could not be repeated exactly", async () => {
  const { clock, recorder, inserts, commits, own, holdInserts } = rig();
  const partition = own(0);
  recorder.assigned(partition);
  const insertIsThrough = holdInserts();
  void recorder.push(
    partition,
    Array.from({ length: 60_000 }, (_, offset) => record(offset, "row")),
  );
  await clock.advance(0);
  expect(commits).toEqual([{ offset: 0, metadata: "0 0 50000" }]);
  void recorder.push(partition, [record(60_000, "row")]);
  insertIsThrough();
  await clock.advance(0);
  expect(inserts.map((rows) => rows.length)).toEqual([50_000, 10_001]);
  expect(commits[1]).toEqual({ offset: 50_000, metadata: "0 50000 60001" });
});

test("what waits of a partition that is lost is left to its next owner, and what waits of others is not", async () => {
  const { clock, recorder, inserts, own } = rig();
  const [lost, kept] = [own(0), own(1)];
  recorder.assigned(lost);
  recorder.assigned(kept);
  void recorder.push(lost, [record(0, "lost")]);
  void recorder.push(kept, [record(0, "kept", 1)]);
  await recorder.revoked(lost);
  await clock.advance(LINGER_MS);
  expect(inserts).toEqual([["kept"]]);
});

test("a stop lets partitions go on that wait for room, and has none wait any more: the log's consumer would never end", async () => {
  const { clock, recorder, own, failInserts } = rig();
  const partition = own(0);
  recorder.assigned(partition);
  failInserts(Number.POSITIVE_INFINITY);
  let goesOn = false;
  const large = record(0, " ".repeat(65 * MIB));
  const waited = Promise.resolve(recorder.push(partition, [large])).then(() => (goesOn = true));
  await clock.advance(0);
  expect(goesOn).toBe(false);
  const stopped = recorder[Symbol.asyncDispose]();
  await clock.advance(0);
  expect(goesOn).toBe(true);
  expect(recorder.push(partition, [record(1, "a")])).toBeUndefined();
  await Promise.all([waited, stopped]);
});

test("a partition is let go of only after the insert that holds its rows, and the commit behind it", async () => {
  const { clock, recorder, commits, own, holdInserts } = rig();
  const [busy, idle] = [own(0), own(1)];
  recorder.assigned(busy);
  recorder.assigned(idle);
  const insertIsThrough = holdInserts();
  void recorder.push(busy, [record(0, "a")]);
  await clock.advance(LINGER_MS);
  const gone: string[] = [];
  void recorder.revoked(idle).then(() => gone.push("idle"));
  void recorder.revoked(busy).then(() => gone.push(`busy after ${commits.at(-1)?.offset}`));
  await clock.advance(LINGER_MS);
  expect(gone).toEqual(["idle"]);
  insertIsThrough();
  await clock.advance(0);
  expect(gone).toEqual(["idle", "busy after 1"]);
});

test("a stop commits the insert under way, and leaves what came meanwhile to the next owner", async () => {
  const { clock, recorder, inserts, commits, own, holdInserts } = rig();
  const partition = own(0);
  recorder.assigned(partition);
  const insertIsThrough = holdInserts();
  void recorder.push(partition, [record(0, "a")]);
  await clock.advance(LINGER_MS);
  void recorder.push(partition, [record(1, "b")]);
  let isOver = false;
  void recorder[Symbol.asyncDispose]().then(() => (isOver = true));
  await clock.advance(LINGER_MS);
  expect(isOver).toBe(false);
  insertIsThrough();
  await clock.advance(0);
  expect(isOver).toBe(true);
  expect(inserts).toEqual([["a"]]);
  expect(commits.at(-1)).toEqual({ offset: 1, metadata: "" });
});

test.each([0, 50])(
  "a stop waits for no more records, and announces nothing that it does not insert (after %d ms)",
  async (waitedMs) => {
    const { clock, recorder, inserts, commits, own } = rig();
    const partition = own(0);
    recorder.assigned(partition);
    void recorder.push(partition, [record(0, "a")]);
    await clock.advance(waitedMs);
    let isOver = false;
    void recorder[Symbol.asyncDispose]().then(() => (isOver = true));
    await clock.advance(0);
    expect(isOver).toBe(true);
    expect(inserts).toEqual([]);
    expect(commits).toEqual([]);
  },
);

test("a stop does not wait for a store that is away", async () => {
  const { clock, recorder, commits, own, failInserts } = rig();
  const partition = own(0);
  recorder.assigned(partition);
  failInserts(1_000);
  void recorder.push(partition, [record(0, "a")]);
  await clock.advance(LINGER_MS);
  let isOver = false;
  void recorder[Symbol.asyncDispose]().then(() => (isOver = true));
  await clock.advance(0);
  expect(isOver).toBe(true);
  expect(commits.at(-1)).toMatchObject({ offset: 0 });
});

test("ten thousand rows wait for no others, whether they come while it waits or while it commits", async () => {
  const rows = Array.from({ length: 10_000 }, (_, nth) => record(nth + 1, `${nth}`));
  for (const during of ["wait", "commit"]) {
    const { clock, recorder, inserts, own, holdCommits, holdInserts } = rig();
    const partition = own(0);
    recorder.assigned(partition);
    void recorder.push(partition, [record(0, "first")]);
    let goOn = (): void => undefined;
    if (during === "commit") {
      const insertIsThrough = holdInserts();
      await clock.advance(LINGER_MS);
      goOn = holdCommits();
      insertIsThrough();
    }
    await clock.advance(0);
    void recorder.push(partition, rows);
    goOn();
    await clock.advance(0);
    expect(inserts.flat()).toHaveLength(10_001);
  }
});

test("a batch that an earlier owner announced is inserted as it was announced, however many records have come behind it", async () => {
  const { clock, recorder, inserts, commits, own } = rig();
  const partition = own(0, "0 0 2");
  recorder.assigned(partition);
  void recorder.push(partition, [record(0, "a"), record(1, "b"), record(2, "c")]);
  await clock.advance(3 * LINGER_MS);
  expect(inserts).toEqual([["a", "b"], ["c"]]);
  expect(commits.at(-1)).toEqual({ offset: 3, metadata: "" });
});

test("a batch that an earlier owner announced is waited for ten seconds, then its records go in another", async () => {
  const { clock, recorder, inserts, own } = rig();
  const partition = own(0, "0 0 2,1 0 1");
  recorder.assigned(partition);
  void recorder.push(partition, [record(0, "a"), record(1, "b")]);
  await clock.advance(9_000);
  expect(inserts).toEqual([]);
  await clock.advance(2_000);
  expect(inserts).toEqual([["a", "b"]]);
});

test("a trickle is inserted at most every 0.3 s, ten times as far apart as an insert takes, but visible within a second", async () => {
  for (const [insertMs, most] of [
    [0, 1_000 / 300],
    [50, 1_000 / 500],
    [200, 1_000 / 900],
  ] as const) {
    const { clock, recorder, inserts, own, takeMs } = rig();
    takeMs(insertMs);
    const partition = own(0);
    recorder.assigned(partition);
    for (let offset = 0; offset < 400; offset += 1) {
      void recorder.push(partition, [record(offset, `${offset}`)]);
      await clock.advance(25);
    }
    expect(inserts.length).toBeLessThanOrEqual(10 * most + 1);
    expect(inserts.length).toBeGreaterThanOrEqual(10);
  }
});

test("a trickle is inserted every 0.3 s, and what comes after a pause within 100 ms: each insert costs the store as much as hundreds of rows", async () => {
  const { clock, recorder, inserts, own } = rig();
  const partition = own(0);
  recorder.assigned(partition);
  for (let offset = 0; offset < 100; offset += 1) {
    void recorder.push(partition, [record(offset, `${offset}`)]);
    await clock.advance(25);
  }
  await clock.advance(LINGER_MS);
  expect(inserts.flat()).toEqual(Array.from({ length: 100 }, (_, offset) => `${offset}`));
  expect(inserts.length).toBeLessThanOrEqual(10);
  const before = inserts.length;
  void recorder.push(partition, [record(100, "later")]);
  await clock.advance(100);
  expect(inserts.slice(before)).toEqual([["later"]]);
});

test("regression: commits that fail are told of at once, then once a minute with their number: each partition had a line every few seconds", async () => {
  const { clock, recorder, lines, counts, own, failCommits } = rig();
  const partitions = [own(0), own(1), own(2)];
  for (const partition of partitions) recorder.assigned(partition);
  failCommits(new Error("no coordinator"));
  for (let offset = 0; offset < 40; offset += 1) {
    for (const partition of partitions)
      void recorder.push(partition, [record(offset, `${offset}`, partition.partition)]);
    await clock.advance(2_000);
  }
  expect(lines).toEqual(["warn record.commit_failed", "warn record.commit_failed"]);
  // Each batch of the minute is announced, and committed once it is stored.
  expect(counts[0]).toBe(1);
  expect(counts[1]).toBeGreaterThan(100);
});
