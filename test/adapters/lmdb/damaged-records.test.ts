import { closeSync, cpSync, openSync, readdirSync, readFileSync, writeSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { packCommit } from "../../../src/adapters/lmdb/commit/pack-commit.ts";
import type { Row } from "../../../src/adapters/lmdb/layout.ts";
import { NO_METRICS } from "../../../src/adapters/lmdb/metrics.ts";
import { openStore } from "../../../src/adapters/lmdb/store.ts";
import type { CommitStore } from "../../../src/adapters/lmdb/store.ts";
import { collect, record, text } from "../../support/log-consumer.ts";
import { openTestLog, storeIn, temporaryDir } from "../../support/log-lmdb.ts";
import { makeSilentLogger } from "../../support/silent-logger.ts";

const DEADLINE_MS = 20_000;
const NOTHING = { groups: [], removedBelow: [], removedBlobs: [], refs: [], starts: [] };
const EVENTS = { topic: "events", partition: 0 } as const;
const READER = { group: "delivery", topics: ["events", "tasks"], deadlineMs: DEADLINE_MS } as const;
/** No segment takes it, so it lies in LMDB. */
const LARGE_BYTES = 5_000_000;

/** Inverts the byte at `position`; doing so twice leaves the file as it was. */
function flip(path: string, position: number): void {
  const file = openSync(path, "r+");
  try {
    writeSync(file, Uint8Array.of(readFileSync(path)[position]! ^ 0xff), 0, 1, position);
  } finally {
    closeSync(file);
  }
}

/** Damages the only place of the log's files that holds `payload`. */
function damage(dir: string, payload: string): void {
  const { path, segmentsDir } = storeIn(dir);
  const segments = readdirSync(segmentsDir).map((name) => join(segmentsDir, name));
  const holders = [path, ...segments].filter((file) => readFileSync(file).includes(payload));
  expect(holders).toHaveLength(1);
  flip(holders[0]!, readFileSync(holders[0]!).indexOf(payload));
}

async function storeOne(store: CommitStore, value: Buffer): Promise<Row> {
  const records = [{ offset: 0, keyBytes: Buffer.from("ep_1"), value, appendedAtMs: 1 }];
  const packed = packCommit([{ ...EVENTS, base: 0, next: 1, records }], 1);
  await store.commit({ ...NOTHING, packed });
  // What a commit left in memory is not read from the disk.
  await store.reopen();
  return store.rowsFrom(EVENTS, 0, 1)[0]!;
}

it("whichever byte of a region has changed on the disk, its records are not read, and that is told", async () => {
  await using dir = await temporaryDir();
  const damaged: Row[] = [];
  const options = { ...storeIn(dir.path), damaged: (row: Row) => damaged.push(row) };
  await using store = await openStore(options);
  const row = await storeOne(store, Buffer.from("the payload"));
  const whole = Buffer.from(store.region(row)!);
  const [segment] = readdirSync(options.segmentsDir).map((name) => join(options.segmentsDir, name));
  const at = readFileSync(segment!).indexOf(whole);
  expect(at).toBeGreaterThan(0);
  const storedBytes = whole.length + 4;
  for (let position = at; position < at + storedBytes; position += 1) {
    flip(segment!, position);
    expect(store.region(row)).toHaveLength(0);
    flip(segment!, position);
  }
  expect(damaged).toHaveLength(storedBytes);
  expect(store.region(row)).toEqual(whole);
  expect(damaged).toHaveLength(storedBytes);
});

it("regression: a webhook whose bytes had changed on the disk was delivered and recorded as genuine; it is left out, told once, and those around it go on", async () => {
  await using dir = await temporaryDir();
  const payloads = ["first", "second", "z".repeat(LARGE_BYTES), "fourth"];
  {
    await using log = await openTestLog(dir.path);
    for (const payload of payloads) await log.append([record("events", 0, payload)]);
  }
  damage(dir.path, "second");
  damage(dir.path, "zzzzzzzzzz");

  const told: object[] = [];
  const lost: unknown[] = [];
  const logger = makeSilentLogger((level, message, fields) => {
    if (level === "error") told.push({ message, ...fields });
  });
  const metrics = { ...NO_METRICS, lost: (...args: unknown[]) => lost.push(args) };
  await using log = await openTestLog(dir.path, { logger, metrics });
  for (const group of ["delivery", "recorder"]) {
    await using reader = await collect(log, { group, topics: ["events"], deadlineMs: DEADLINE_MS });
    const records = await reader.received(2);
    expect(records.map((one) => [one.offset, text(one)])).toEqual([
      [0, "first"],
      [3, "fourth"],
    ]);
    expect(reader.errors).toEqual([]);
  }
  const why = "they are damaged on the disk, and left out";
  const loss = { message: "log.records_lost", ...EVENTS, count: 1, why };
  expect(told).toEqual([
    { ...loss, from: 1, to: 2 },
    { ...loss, from: 2, to: 3 },
  ]);
  expect(lost).toEqual([
    ["events", 1],
    ["events", 1],
  ]);
});

it("regression: after a crash, a damaged commit that was not in the index yet kept the log from opening; all others are read, and what is appended next is not passed over", async () => {
  await using dir = await temporaryDir();
  await using copy = await temporaryDir();
  {
    await using log = await openTestLog(dir.path);
    await log.append([record("events", 0, "first")]);
    await log.append([record("events", 0, "second"), record("tasks", 0, "the only one")]);
    await log.append([record("events", 0, "third")]);
    await using reader = await collect(log, READER);
    await reader.received(4);
    const positions = [
      { topic: "events", offset: 3 },
      { topic: "tasks", offset: 1 },
    ] as const;
    await reader.owned.get(0)!.commit(positions);
    cpSync(dir.path, copy.path, { recursive: true });
  }
  damage(copy.path, "second");

  const told: object[] = [];
  const logger = makeSilentLogger((level, message, fields) => {
    if (level === "error") told.push({ message, ...fields });
  });
  for (const added of ["fourth", "fifth"]) {
    await using log = await openTestLog(copy.path, { logger });
    await log.append([record("tasks", 0, added)]);
    await using reader = await collect(log, READER);
    const found = (await reader.received(added === "fourth" ? 3 : 4)).map((one) => text(one));
    const expected = ["first", "third", "fourth", ...(added === "fifth" ? [added] : [])];
    expect(found.toSorted()).toEqual(expected.toSorted());
  }
  expect(told).toEqual([
    expect.objectContaining({ message: "log.commits_lost", commits: 1 }),
    {
      message: "log.records_lost",
      ...EVENTS,
      from: 1,
      to: 2,
      count: 1,
      why: "the commit that held them is damaged on the disk",
    },
  ]);
});

it("a limit that is damaged on the disk does not keep the others from being compacted", async () => {
  await using dir = await temporaryDir();
  const options = { partitions: 1 };
  {
    await using log = await openTestLog(dir.path, options);
    for (let n = 0; n < 80; n += 1) await log.append([record("limits", 0, `limit-${n}.`, `k${n}`)]);
  }
  damage(dir.path, "limit-7.");

  const told: string[] = [];
  const logger = makeSilentLogger((_level, message) => told.push(message));
  await using log = await openTestLog(dir.path, { ...options, logger });
  await log.trim();
  expect(told).toEqual(["log.records_lost"]);
  await using reader = await collect(log, {
    group: "delivery",
    topics: ["tasks"],
    sideTopics: ["limits"],
    deadlineMs: DEADLINE_MS,
  });
  await expect.poll(() => reader.owned.size).toBe(1);
  const left: string[] = [];
  for await (const records of reader.owned.get(0)!.read("limits", 0))
    left.push(...records.map((one) => text(one)));
  expect(left).toHaveLength(79);
  expect(left).not.toContain("limit-7.");
});

it("a region of an earlier version, which has no checksum, is read as it is", async () => {
  await using dir = await temporaryDir();
  await using store = await openStore(storeIn(dir.path));
  const value = Buffer.from("the payload");
  const records = [{ offset: 0, keyBytes: Buffer.from("ep_1"), value, appendedAtMs: 1 }];
  const { blobs, rows } = packCommit([{ ...EVENTS, base: 0, next: 1, records }], 1);
  const earlier = {
    blobs: blobs.map(({ seq, bytes }) => ({ seq, bytes: bytes.subarray(0, -4) })),
    rows: rows.map((row) => Object.assign({}, row, { hasChecksum: false })),
  };
  await store.commit({ ...NOTHING, packed: earlier });
  await store.reopen();
  const row = store.rowsFrom(EVENTS, 0, 1)[0]!;
  expect(row.hasChecksum).toBe(false);
  expect(store.region(row)!.subarray(-value.length)).toEqual(value);
});
