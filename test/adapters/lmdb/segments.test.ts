import fs, {
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { expect, it, vi } from "vitest";
import { openEnvironment } from "../../../src/adapters/lmdb/environment.ts";
import type { StreamId } from "../../../src/adapters/lmdb/layout.ts";
import { packCommit } from "../../../src/adapters/lmdb/commit/pack-commit.ts";
import { SegmentReader } from "../../../src/adapters/lmdb/segments/segment-reader.ts";
import { RETRY_COMMITS, Segments } from "../../../src/adapters/lmdb/segments/segments.ts";
import type { WrittenCommit } from "../../../src/adapters/lmdb/segments/read-segment.ts";
import { openStore } from "../../../src/adapters/lmdb/store.ts";
import type { CommitStore } from "../../../src/adapters/lmdb/store.ts";
import type { UnreadableCommits } from "../../../src/adapters/lmdb/commit/unreadable-commits.ts";
import { encodeCommit } from "../../../src/adapters/lmdb/segments/segment-commit.ts";
import type { SegmentCommit } from "../../../src/adapters/lmdb/segments/segment-commit.ts";
import { makeSeededRandom } from "../../faults/harness/random.ts";
import { FaultyDisk } from "../../support/faulty-disk.ts";
import { collect, record, text } from "../../support/log-consumer.ts";
import { diskFailure, replaceFiles } from "../../support/replace-files.ts";
import { openTestLog, storeIn, temporaryDir } from "../../support/log-lmdb.ts";

// These tests write hundreds of megabytes: on a busy disk, one may take more than the minute that others get.
vi.setConfig({ testTimeout: 240_000 });

const MIB = 1024 * 1024;
const SEED = 7;
// Buffers, since that is what is read.
const bytes = (maxLength: number, minLength = 0) =>
  fc.uint8Array({ maxLength, minLength }).map((made) => Buffer.from(made));
const commit: fc.Arbitrary<SegmentCommit> = fc.record({
  blobs: fc.array(fc.record({ seq: fc.nat(), bytes: bytes(300, 1) }), { maxLength: 3 }),
  rows: bytes(100),
  groups: fc.array(fc.tuple(fc.string({ unit: "grapheme" }), fc.string()), { maxLength: 3 }),
});

const KEY = Buffer.from("ep_1");
const NOTHING = { groups: [], removedBelow: [], removedBlobs: [], refs: [], starts: [] };
const STREAM = { topic: "events", partition: 0 } as const;

/** The number of the next blob, across all stores. */
let nextSeq = 1;

const segmentsIn = (dir: string) => readdirSync(storeIn(dir).segmentsDir);

async function commitOne(
  store: CommitStore,
  offset: number,
  sizeBytes: number,
  stream: StreamId = STREAM,
): Promise<void> {
  const value = Buffer.alloc(sizeBytes, offset);
  const records = [{ offset, keyBytes: KEY, value, appendedAtMs: 1 }];
  const streams = [{ ...stream, base: offset, next: offset + 1, records }];
  await store.commit({
    ...NOTHING,
    packed: packCommit(streams, nextSeq++),
    groups: [["done", String(offset)]],
  });
}

function expectWhole(store: CommitStore, count: number): void {
  expectRows(store, 0, count);
  expect(store.groupEntries()).toContainEqual(["done", String(count - 1)]);
}

function expectRows(
  store: CommitStore,
  from: number,
  count: number,
  stream: StreamId = STREAM,
): void {
  const rows = store.rowsFrom(stream, 0, Number.MAX_SAFE_INTEGER);
  expect(rows.map((row) => row.base)).toEqual(Array.from({ length: count }, (_, n) => from + n));
  for (const row of rows) expect(store.region(row)!.at(-1)).toBe(row.base % 256);
}

/** Returns a written commit as it was stored, with the blobs found at its places. */
function asStored(dir: string, { places, rows, groups }: WrittenCommit): SegmentCommit {
  using reader = new SegmentReader(dir);
  return {
    blobs: places.map(([seq, place]) => ({ seq, bytes: reader.read(place) })),
    rows,
    groups,
  };
}

/** Returns the commits that a log opened now puts into its index. */
async function recover(dir: string, after: number, seed = SEED): Promise<WrittenCommit[]> {
  await using segments = new Segments(dir, seed);
  return segments.readAfter(after);
}

it("what was written is read, in order and from any number on; a last commit that a crash cut short is not and the next is written in its place, and one that is damaged before it is left out", async () => {
  await using base = await temporaryDir();
  let run = 0;
  await fc.assert(
    fc.asyncProperty(
      fc.array(commit, { minLength: 1, maxLength: 6 }),
      fc.integer({ min: 1, max: 1_000 }),
      fc.double({ min: 0, max: 0.999, noNaN: true }),
      fc.integer({ min: 1, max: 255 }),
      commit,
      async (commits, first, where, change, another) => {
        const dir = join(base.path, String(run++));
        const writer = new Segments(dir, SEED);
        const ends = [0];
        for (const [index, one] of commits.entries()) {
          const written = writer.append(first + index, one)!;
          expect(asStored(dir, written)).toEqual(one);
          const head = 32 + one.blobs.length * 10;
          const json = one.groups.length === 0 ? "" : JSON.stringify(one.groups);
          const blobBytes = one.blobs.reduce((sum, blob) => sum + blob.bytes.length, 0);
          ends.push(ends.at(-1)! + head + one.rows.length + Buffer.byteLength(json) + blobBytes);
        }
        await writer[Symbol.asyncDispose]();
        const readAfter = async (number: number) =>
          (await recover(dir, number)).map((written) => asStored(dir, written));
        expect(await readAfter(first - 1)).toEqual(commits);
        expect(await readAfter(first)).toEqual(commits.slice(1));
        expect(await readAfter(first + 1_000)).toEqual([]);
        const path = join(dir, "1.segment");
        const damagedAt = Math.floor(where * ends.at(-1)!);
        const content = readFileSync(path);
        content[damagedAt] = content[damagedAt]! ^ change;
        writeFileSync(path, content);
        const intact = ends.slice(1).filter((end) => end <= damagedAt).length;
        const last = commits.length - 1;
        if (intact === last) {
          const whole = commits.slice(0, last);
          expect(await readAfter(first - 1)).toEqual(whole);
          {
            await using next = new Segments(dir, SEED);
            next.readAfter(first - 1);
            next.append(first + last, another);
          }
          expect(await readAfter(first - 1)).toEqual([...whole, another]);
        } else {
          const behind = commits
            .slice(intact + 1)
            .map(({ blobs, rows }) => ({ blobs, rows, groups: [] }));
          expect(await readAfter(first - 1)).toEqual([...commits.slice(0, intact), ...behind]);
        }
        rmSync(dir, { recursive: true });
      },
    ),
    { numRuns: 100, endOnFailure: true },
  );
});

/** Returns what a link leads to; nothing if it is gone. */
function targetOf(link: string): string {
  try {
    return readlinkSync(link);
  } catch {
    return "";
  }
}

const sized = (seq: number, sizeBytes: number): SegmentCommit => ({
  blobs: [{ seq, bytes: Buffer.alloc(sizeBytes, seq) }],
  rows: Buffer.alloc(0),
  groups: [],
});

it("commits go on in the next segment, and are found in order over all of them", async () => {
  await using dir = await temporaryDir();
  const writer = new Segments(dir.path, SEED);
  for (let number = 1; number <= 12; number += 1) writer.append(number, sized(number, 3 * MIB));
  await writer[Symbol.asyncDispose]();
  for (const after of [0, 1, 6, 11, 12]) {
    const found = await recover(dir.path, after);
    expect(found.map(({ number }) => number)).toEqual(
      Array.from({ length: 12 - after }, (_, index) => after + 1 + index),
    );
    for (const one of found) {
      const [blob] = asStored(dir.path, one).blobs;
      expect(blob!.seq).toBe(one.number);
      expect(Buffer.alloc(3 * MIB, one.number).equals(blob!.bytes)).toBe(true);
    }
  }
});

it("a segment is written anew once nothing in it is needed and its readers let go of it, and nothing that was left in it is taken for new", async () => {
  await using dir = await temporaryDir();
  const writer = new Segments(dir.path, SEED);
  const written = [1, 2, 3].map((number) => writer.append(number, sized(number, 3 * MIB))!);
  expect(writer.takeEmptied(3)).toEqual([]);
  writer.forget(written.slice(0, 2).map(({ places }) => places[0]![1]));
  expect(writer.takeEmptied(1)).toEqual([]);
  expect(writer.takeEmptied(2)).toEqual([1]);
  expect(writer.takeEmptied(2)).toEqual([]);
  writer.append(4, sized(4, 3 * MIB));
  writer.reuse(1);
  const again = writer.append(5, sized(5, 3 * MIB))!;
  expect(again.places[0]![1].segment).toBe(1);
  await writer[Symbol.asyncDispose]();
  const after = async (number: number) =>
    (await recover(dir.path, number)).map((one) => one.number);
  expect([await after(2), await after(4), await after(5)]).toEqual([[3, 4, 5], [5], []]);
});

it("keeps half as many segments for later as are in use, four at least, and removes the others", async () => {
  await using dir = await temporaryDir();
  const writer = new Segments(dir.path, SEED);
  const written = Array.from({ length: 40 }, (_, index) =>
    writer.append(index + 1, sized(index + 1, 3 * MIB)),
  );
  const giveBack = (from: number, to: number): void => {
    writer.forget(written.slice(from, to).flatMap((one) => one!.places.map(([, place]) => place)));
    for (const segment of writer.takeEmptied(40)) writer.reuse(segment);
  };
  // Each of twenty segments holds two commits; the last segment is being written to.
  giveBack(0, 14);
  await vi.waitFor(() => expect(readdirSync(dir.path)).toHaveLength(13 + 6), { timeout: 15_000 });
  giveBack(14, 38);
  await writer[Symbol.asyncDispose]();
  expect(readdirSync(dir.path)).toHaveLength(1 + 4);
});

it("regression: the segment to be cleared out is told with the span of its blobs: those of all segments were looked at, a second for half a million, while appends waited", async () => {
  await using dir = await temporaryDir();
  {
    const writer = new Segments(dir.path, SEED);
    for (let number = 1; number <= 40; number += 1)
      writer.append(number, sized(number, number % 2 === 0 ? MIB / 2 : 3 * MIB));
    await writer[Symbol.asyncDispose]();
  }
  await using writer = new Segments(dir.path, SEED);
  const blobs = writer.readAfter(0).map(({ places }) => places[0]!);
  expect(writer.sparsest(40)).toBeNull();
  // The small blobs of each segment stay.
  writer.forget(blobs.filter(([seq]) => seq % 2 === 1).map(([, place]) => place));
  const sparsest = writer.sparsest(40)!;
  const seqs = blobs.filter(([, { segment }]) => segment === sparsest.id).map(([seq]) => seq);
  expect(sparsest).toMatchObject({ firstSeq: Math.min(...seqs), lastSeq: Math.max(...seqs) });
});

it("clears out no segment with commits that the index does not have yet: they would be left behind in it", async () => {
  await using dir = await temporaryDir();
  await using writer = new Segments(dir.path, SEED);
  const written = Array.from({ length: 40 }, (_, index) =>
    writer.append(index + 1, sized(index + 1, index % 2 === 0 ? MIB / 2 : 3 * MIB)),
  );
  writer.forget(
    written.filter((_, at) => at % 2 === 1).flatMap((one) => one!.places.map(([, place]) => place)),
  );
  const spans = [4, 5, 40].map((applied) => writer.sparsest(applied));
  expect(spans.map((span) => span?.lastSeq ?? null)).toEqual([null, 5, 9]);
});

it("of a number that was written twice the later one counts: the first was refused", async () => {
  await using dir = await temporaryDir();
  const writer = new Segments(dir.path, SEED);
  writer.append(1, sized(1, 3 * MIB));
  writer.append(2, sized(2, 3 * MIB));
  writer.append(2, sized(7, 3 * MIB));
  await writer[Symbol.asyncDispose]();
  const found = await recover(dir.path, 0);
  expect(found.map(({ places }) => places[0]![0])).toEqual([1, 7]);
});

it("regression: the segment of the latest commit is written on: each start took one more, eight megabytes that only an hour later were given back", async () => {
  await using dir = await temporaryDir();
  for (let start = 0; start < 10; start += 1) {
    const store = await openStore(storeIn(dir.path));
    if (start % 2 === 0) await commitOne(store, start / 2, 1_000);
    await store[Symbol.asyncDispose]();
  }
  expect(segmentsIn(dir.path)).toEqual(["1.segment"]);
  const store = await openStore(storeIn(dir.path));
  expectWhole(store, 5);
  await store[Symbol.asyncDispose]();
});

it("regression: a segment whose first commit was cut short does not hide the one that is written on in its place: commits after its number were lost at the next crash", async () => {
  await using dir = await temporaryDir();
  let cut = 0;
  {
    await using writer = new Segments(dir.path, SEED);
    for (const number of [1, 2, 3]) cut = writer.append(number, sized(number, 3 * MIB))!.segment;
  }
  // Only one page of the third commit, which begins another segment, reached the disk.
  const path = join(dir.path, `${cut}.segment`);
  const content = readFileSync(path);
  writeFileSync(path, content.fill(0, 4_096));
  {
    await using writer = new Segments(dir.path, SEED);
    expect(writer.readAfter(0).map(({ number }) => number)).toEqual([1, 2]);
    for (const emptied of writer.takeEmptied(2)) writer.reuse(emptied);
    for (const number of [3, 4, 5, 6])
      expect(writer.append(number, sized(number, 1_000))).toMatchObject({ segment: 1 });
  }
  for (const after of [2, 3, 5])
    expect((await recover(dir.path, after)).map(({ number }) => number)).toEqual(
      [3, 4, 5, 6].filter((number) => number > after),
    );
});

it("the segment that is written on keeps what the index knows of, also where the commit that holds it is damaged", async () => {
  await using dir = await temporaryDir();
  {
    await using writer = new Segments(dir.path, SEED);
    for (let number = 1; number <= 3; number += 1) writer.append(number, sized(number, 1_000));
  }
  const path = join(dir.path, "1.segment");
  const latest = (await recover(dir.path, 2))[0]!;
  const content = readFileSync(path);
  content[latest.endBytes - 1_000 - 10]! ^= 1;
  writeFileSync(path, content);
  await using writer = new Segments(dir.path, SEED);
  for (const [seq, place] of latest.places) writer.keep(seq, place);
  expect(writer.readAfter(3)).toEqual([]);
  expect(writer.append(4, sized(4, 10))!.places[0]![1]).toMatchObject({ segment: 1 });
  using reader = new SegmentReader(dir.path);
  expect(reader.read(latest.places[0]![1]).equals(Buffer.alloc(1_000, 3))).toBe(true);
});

it("a commit that would leave half of a segment unused is refused, and nothing of it written", async () => {
  await using dir = await temporaryDir();
  await using writer = new Segments(dir.path, SEED);
  expect(writer.append(1, sized(1, 5 * MIB))).toBeNull();
  expect(await recover(dir.path, 0)).toEqual([]);
});

it("a blob that no segment takes keeps its number when the log is opened again: it would be taken for the next one", async () => {
  await using dir = await temporaryDir();
  const values = ["small", "large".padEnd(5 * MIB), "next", "last"];
  for (const value of values) {
    await using log = await openTestLog(dir.path, { partitions: 1 });
    await log.append([record("events", 0, value)]);
  }
  await using log = await openTestLog(dir.path, { partitions: 1 });
  await using consumer = await collect(log, { group: "g", topics: ["events"], deadlineMs: 20_000 });
  expect((await consumer.received(4)).map((one) => text(one) === values[one.offset])).toEqual(
    values.map(() => true),
  );
});

it("files as a crash leaves them, at any moment, hold every commit that was answered", async () => {
  await using dir = await temporaryDir();
  const live = join(dir.path, "live");
  mkdirSync(live);
  const store = await openStore(storeIn(live));
  // Sizes above and below what a segment takes, with a total beyond several segments and what may wait for the index.
  const sizes = [10, 200_000, 5_500_000, 3_700_000, 3_900_000, 900_000, 20, 3_000_000, 3_000_000];
  for (const [offset, sizeBytes] of sizes.entries()) {
    await commitOne(store, offset, sizeBytes);
    expectRows(store, 0, offset + 1);
    const copy = join(dir.path, `crash-${offset}`);
    cpSync(live, copy, { recursive: true });
    const reopened = await openStore(storeIn(copy));
    expectWhole(reopened, offset + 1);
    await commitOne(reopened, offset + 1, 50);
    await reopened[Symbol.asyncDispose]();
    const again = await openStore(storeIn(copy));
    expectWhole(again, offset + 2);
    await again[Symbol.asyncDispose]();
    rmSync(copy, { recursive: true });
  }
  await store[Symbol.asyncDispose]();
});

it("what is trimmed gives its segments back, and the log goes on in them; a crash at any moment loses nothing of the rest", async () => {
  await using dir = await temporaryDir();
  await using copies = await temporaryDir();
  const store = await openStore(storeIn(dir.path));
  const keep = 4;
  for (let offset = 0; offset < 60; offset += 1) {
    await commitOne(store, offset, MIB);
    if (offset < keep) continue;
    const [oldest] = store.rowsFrom(STREAM, 0, 1);
    await store.commit({
      ...NOTHING,
      packed: { blobs: [], rows: [] },
      removedBelow: [[STREAM, oldest!.next]],
      removedBlobs: [oldest!.seq],
    });
    expectRows(store, offset - keep + 1, keep);
    if (offset % 9 !== 0) continue;
    const copy = join(copies.path, String(offset));
    cpSync(dir.path, copy, { recursive: true });
    const reopened = await openStore(storeIn(copy));
    expectRows(reopened, offset - keep + 1, keep);
    await reopened[Symbol.asyncDispose]();
  }
  await store[Symbol.asyncDispose]();
  expect(segmentsIn(dir.path).length).toBeLessThanOrEqual(5);
  const reopened = await openStore(storeIn(dir.path));
  expectRows(reopened, 56, keep);
  await reopened[Symbol.asyncDispose]();
});

it("a few records that stay do not keep the segments of all that was written beside them", async () => {
  await using dir = await temporaryDir();
  const store = await openStore(storeIn(dir.path));
  const held = { topic: "held", partition: 0 } as const;
  let kept = 0;
  for (let offset = 0; offset < 150; offset += 1) {
    if (offset % 10 === 0) await commitOne(store, kept++, MIB, held);
    else await commitOne(store, offset, MIB);
    const rows = store.rowsFrom(STREAM, 0, Number.MAX_SAFE_INTEGER);
    if (rows.length < 20 && offset < 145) continue;
    await store.commit({
      ...NOTHING,
      packed: { blobs: [], rows: [] },
      removedBelow: [[STREAM, offset + 1]],
      removedBlobs: rows.map((row) => row.seq),
    });
  }
  expect(kept).toBe(15);
  const expectKept = (opened: CommitStore): void => expectRows(opened, 0, kept, held);
  expectKept(store);
  await store[Symbol.asyncDispose]();
  // The fifteen megabytes kept fill a quarter of eight segments: these, the one being written to, and four for later.
  expect(segmentsIn(dir.path).length).toBeLessThanOrEqual(13);
  const reopened = await openStore(storeIn(dir.path));
  expectKept(reopened);
  await reopened[Symbol.asyncDispose]();
}, 30_000);

it("regression: the segments of all that was written beside a few records that stay are cleared out, though nothing is removed any more: 1.5 GB stayed until the next trim that had something to do", async () => {
  await using dir = await temporaryDir();
  const held = { topic: "held", partition: 0 } as const;
  const expectKept = (opened: CommitStore): void => expectRows(opened, 0, 15, held);
  const store = await openStore(storeIn(dir.path));
  for (let kept = 0; kept < 15; kept += 1) {
    await commitOne(store, kept, MIB, held);
    for (let beside = 0; beside < 9; beside += 1) await commitOne(store, kept * 9 + beside, MIB);
  }
  await store.commit({
    ...NOTHING,
    packed: { blobs: [], rows: [] },
    removedBelow: [[STREAM, 135]],
    removedBlobs: store.rowsFrom(STREAM, 0, Number.MAX_SAFE_INTEGER).map((row) => row.seq),
  });
  const clearedOut = (): void => {
    expectKept(store);
    expect(segmentsIn(dir.path).length).toBeLessThanOrEqual(13);
  };
  await vi.waitFor(clearedOut, { timeout: 20_000, interval: 100 });
  await store[Symbol.asyncDispose]();
  const reopened = await openStore(storeIn(dir.path));
  expectKept(reopened);
  await reopened[Symbol.asyncDispose]();
}, 30_000);

it("refuses to open when a segment is missing that is needed", async () => {
  await using dir = await temporaryDir();
  const store = await openStore(storeIn(dir.path));
  await commitOne(store, 0, 100);
  await store[Symbol.asyncDispose]();
  rmSync(join(dir.path, "segments", "1.segment"));
  await expect(openStore(storeIn(dir.path))).rejects.toThrow(/1\.segment is missing: restore/);
});

it("refuses to open when a segment that is needed is cut off: it opened, and those who read failed for ever", async () => {
  await using dir = await temporaryDir();
  const store = await openStore(storeIn(dir.path));
  await commitOne(store, 0, 100);
  await store[Symbol.asyncDispose]();
  truncateSync(join(dir.path, "segments", "1.segment"), 50);
  await expect(openStore(storeIn(dir.path))).rejects.toThrow(
    /1\.segment is cut off after 50 bytes/,
  );
});

it("a segment that lacks the last byte of a blob is told to be cut off, as it is opened and as it is read", async () => {
  await using dir = await temporaryDir();
  let end = 0;
  {
    await using writer = new Segments(dir.path, SEED);
    end = writer.append(1, sized(1, 1_000))!.endBytes;
  }
  const place = { segment: 1, positionBytes: end - 1_000, lengthBytes: 1_000 };
  const keep = async (): Promise<void> => {
    await using segments = new Segments(dir.path, SEED);
    segments.keep(1, place);
  };
  const path = join(dir.path, "1.segment");
  truncateSync(path, end);
  await keep();
  truncateSync(path, end - 1);
  await expect(keep()).rejects.toThrow(`is cut off after ${end - 1} bytes`);
  using reader = new SegmentReader(dir.path);
  expect(() => reader.read(place)).toThrow("is shorter than it was");
});

it.each([0, 1])(
  "regression: with a commit that is damaged before others the log did not open; what they hold is there, and what is missing is told (commit %i)",
  async (damagedCommit) => {
    await using dir = await temporaryDir();
    await using copy = await temporaryDir();
    const store = await openStore(storeIn(dir.path));
    for (let offset = 0; offset < 4; offset += 1) await commitOne(store, offset, 1_000);
    cpSync(dir.path, copy.path, { recursive: true });
    await store[Symbol.asyncDispose]();
    const segment = join(copy.path, "segments", "1.segment");
    const whole = readFileSync(segment);
    const heads: number[] = [];
    for (let at = whole.indexOf("wal1"); at !== -1; at = whole.indexOf("wal1", at + 1))
      heads.push(at);
    expect(heads).toHaveLength(4);
    for (const [at, flipped] of [
      [heads[damagedCommit]!, 0xff],
      [heads[damagedCommit]! + 500, 1],
    ] as const) {
      const damaged = Buffer.from(whole);
      damaged[at]! ^= flipped;
      await using tried = await temporaryDir();
      cpSync(copy.path, tried.path, { recursive: true });
      writeFileSync(join(tried.path, "segments", "1.segment"), damaged);
      const told: UnreadableCommits[] = [];
      const options = {
        ...storeIn(tried.path),
        unreadable: (commits: UnreadableCommits) => told.push(commits),
      };
      for (let times = 1; times <= 2; times += 1) {
        await using reopened = await openStore(options);
        const offsets = reopened.rowsFrom(STREAM, 0, 10).map(({ base }) => base);
        expect(offsets).toEqual([0, 1, 2, 3].filter((offset) => offset !== damagedCommit));
        expect(reopened.lastRow(STREAM)!.next).toBe(4);
        for (const row of reopened.rowsFrom(STREAM, 0, 10))
          expect(reopened.region(row)).toHaveLength(row.lengthBytes);
      }
      const lost = [{ ...STREAM, from: damagedCommit, to: damagedCommit + 1 }];
      expect(told).toEqual([{ commits: 1, lost }]);
    }
    await using undamaged = await openStore(storeIn(copy.path));
    expectWhole(undamaged, 4);
  },
);

it("refuses to open when far more is missing than ever waits for the index: it is another log's, or an earlier copy", async () => {
  await using dir = await temporaryDir();
  await (await openStore(storeIn(dir.path)))[Symbol.asyncDispose]();
  const { path, segmentsDir, mapSizeBytes } = storeIn(dir.path);
  const environment = openEnvironment(path, mapSizeBytes);
  const seed = Number(environment.groups.get("seed"));
  await environment.root.close();
  {
    await using segments = new Segments(segmentsDir, seed);
    segments.append(1, sized(1, 10));
    segments.append(5_003, sized(2, 10));
  }
  await expect(openStore(storeIn(dir.path))).rejects.toThrow(
    /segments lacks 5001 commits that follow what the index holds: restore/,
  );
});

it("refuses to open without its index: the segments were taken for free ones, and written anew", async () => {
  await using dir = await temporaryDir();
  const store = await openStore(storeIn(dir.path));
  await commitOne(store, 0, 100);
  await store[Symbol.asyncDispose]();
  const { path } = storeIn(dir.path);
  truncateSync(path, 0);
  await expect(openStore(storeIn(dir.path))).rejects.toThrow(/log\.mdb is missing or empty/);
  rmSync(path);
  await expect(openStore(storeIn(dir.path))).rejects.toThrow(/log\.mdb is missing or empty/);
});

it("a segment that a crash left while it was made is not written to", async () => {
  await using dir = await temporaryDir();
  await (await openStore(storeIn(dir.path)))[Symbol.asyncDispose]();
  truncateSync(join(dir.path, "segments", "1.segment"), 1_000);
  const store = await openStore(storeIn(dir.path));
  await commitOne(store, 0, 100);
  expectRows(store, 0, 1);
  await store[Symbol.asyncDispose]();
  expect(segmentsIn(dir.path)).toEqual(["2.segment"]);
});

it("bytes in a payload that look like a commit are not taken for one", async () => {
  await using dir = await temporaryDir();
  const forged = encodeCommit(2, sized(9, 10), SEED + 1);
  const { sizeBytes } = encodeCommit(1, sized(1, 10), SEED);
  const bytes = Buffer.alloc(8 * MIB);
  Buffer.concat(encodeCommit(1, sized(1, 10), SEED).parts).copy(bytes);
  Buffer.concat(forged.parts).copy(bytes, sizeBytes);
  writeFileSync(join(dir.path, "1.segment"), bytes);
  const numbers = async () => (await recover(dir.path, 0)).map(({ number }) => number);
  expect(await numbers()).toEqual([1]);
  Buffer.concat(encodeCommit(2, sized(9, 10), SEED).parts).copy(bytes, sizeBytes);
  writeFileSync(join(dir.path, "1.segment"), bytes);
  expect(await numbers()).toEqual([1, 2]);
});

it("nor are they behind a damaged commit of an earlier version, whose checksums have no secret", async () => {
  await using dir = await temporaryDir();
  const forged = Buffer.concat(encodeCommit(2, sized(9, 10), 0).parts);
  const holder: SegmentCommit = {
    blobs: [{ seq: 1, bytes: forged }],
    rows: Buffer.alloc(0),
    groups: [],
  };
  const bytes = Buffer.alloc(8 * MIB);
  Buffer.concat(encodeCommit(1, holder, 0).parts).copy(bytes);
  const path = join(dir.path, "1.segment");
  writeFileSync(path, bytes);
  expect((await recover(dir.path, 0, 0)).map(({ number }) => number)).toEqual([1]);
  bytes[10]! ^= 1;
  writeFileSync(path, bytes);
  expect(await recover(dir.path, 0, 0)).toEqual([]);
});

it.each([4, 0])(
  "takes over what an earlier version left in its write-ahead file, %i of them in LMDB: without any there it was all lost",
  async (applied) => {
    await using dir = await temporaryDir();
    await using earlier = await temporaryDir();
    const { path, mapSizeBytes } = storeIn(dir.path);
    const environment = openEnvironment(path, mapSizeBytes);
    if (applied > 0) environment.groups.putSync("applied", String(applied));
    await environment.root.close();
    const writer = new Segments(earlier.path, 0);
    writer.append(applied + 1, { blobs: [], rows: Buffer.alloc(0), groups: [["done", "here"]] });
    await writer[Symbol.asyncDispose]();
    cpSync(join(earlier.path, "1.segment"), join(dir.path, "log.wal"));
    const store = await openStore(storeIn(dir.path));
    expect(store.groupEntries()).toContainEqual(["done", "here"]);
    await store[Symbol.asyncDispose]();
    expect(readdirSync(dir.path)).not.toContain("log.wal");
  },
);

/** Makes every sync of a directory fail. */
function failDirectorySyncs(code: string): Disposable {
  const fail = (): never => {
    throw Object.assign(new Error(`${code}: told to fail`), { code });
  };
  const isDirectory = (file: number): boolean => fs.fstatSync(file).isDirectory();
  const { fsyncSync, promises } = fs;
  const { open } = promises;
  return replaceFiles(
    { fsyncSync: (file: number) => (isDirectory(file) ? fail() : fsyncSync(file)) },
    {
      open: async (...args: Parameters<typeof open>) => {
        const handle = await open(...args);
        return isDirectory(handle.fd)
          ? Object.assign(handle, { sync: async () => fail() })
          : handle;
      },
    },
  );
}

it("regression: on a file system that has no sync of directories, segments that were made ahead are used, too: they were thrown away, and commits went into the index's file instead", async () => {
  await using dir = await temporaryDir();
  using _failing = failDirectorySyncs("EINVAL");
  {
    await using writer = new Segments(dir.path, SEED);
    for (const number of [1, 2])
      expect(writer.append(number, sized(number, 3 * MIB))!.segment).toBe(1);
  }
  expect(readdirSync(dir.path)).toEqual(["1.segment", "2.segment"]);
});

it("regression: what a crash left is written again before it is synced: after a sync that failed, the next start counted on what the disk had lost", async () => {
  await using dir = await temporaryDir();
  const commits = [sized(1, 5_000), sized(2, 5_000)];
  let endBytes = 0;
  {
    await using writer = new Segments(dir.path, SEED);
    for (const [index, commit] of commits.entries())
      ({ endBytes } = writer.append(index + 1, commit)!);
  }
  const { writeSync, fdatasyncSync } = fs;
  const done: (string | number)[] = [];
  let fails = true;
  using _ = replaceFiles(
    {
      writeSync: (...[file, bytes, ...where]: [number, Uint8Array, number, number, number]) => {
        done.push(where[1]);
        return writeSync(file, bytes, ...where);
      },
      fdatasyncSync: (file: number) => {
        done.push("synced");
        if (fails) throw diskFailure("EIO");
        fdatasyncSync(file);
      },
    },
    {},
  );
  await expect(recover(dir.path, 0)).rejects.toThrow("EIO");
  fails = false;
  done.length = 0;
  expect(await recover(dir.path, 0)).toHaveLength(2);
  const [writtenBytes, ...then] = done;
  expect(writtenBytes).toBeGreaterThanOrEqual(endBytes);
  expect(then).toEqual(["synced"]);
});

it("a segment of which the name cannot be made durable is not used", async () => {
  await using dir = await temporaryDir();
  using _failing = failDirectorySyncs("EIO");
  await using writer = new Segments(dir.path, SEED);
  expect(writer.append(1, sized(1, 10))).toBeNull();
  expect(readdirSync(dir.path)).toEqual([]);
});

it("of a segment that finds no room nothing stays on the disk, whether it is made ahead or for a commit", async () => {
  await using dir = await temporaryDir();
  using disk = new FaultyDisk(makeSeededRandom(1));
  const writer = new Segments(dir.path, SEED);
  disk.canCreate = false;
  writer.makeReady();
  expect(writer.append(1, sized(1, 3 * MIB))).toBeNull();
  expect(readdirSync(dir.path)).toEqual([]);
  disk.canCreate = true;
  const first = 1 + RETRY_COMMITS;
  for (const number of [first, first + 1]) writer.append(number, sized(number, 3 * MIB));
  disk.canCreate = false;
  expect(readdirSync(dir.path)).toHaveLength(2);
  const closed = writer[Symbol.asyncDispose]();
  await disk.finishBeside();
  await closed;
  expect(readdirSync(dir.path)).toHaveLength(1);
});

it.skipIf(!existsSync("/proc/self/fd"))(
  "a segment that is full is closed: each would take one of the files that the process may have open",
  async () => {
    await using dir = await temporaryDir();
    await using writer = new Segments(dir.path, SEED);
    const used = Array.from({ length: 9 }, (_, index) => {
      const { segment } = writer.append(index + 1, sized(index + 1, 3 * MIB))!;
      return join(dir.path, `${segment}.segment`);
    });
    // Another is made beside the commits, and open meanwhile.
    const open = readdirSync("/proc/self/fd")
      .map((file) => targetOf(join("/proc/self/fd", file)))
      .filter((path) => used.includes(path));
    expect(new Set(used).size).toBe(5);
    expect(open).toEqual([used.at(-1)]);
  },
);

it("regression: a segment that cannot be opened, since too many files are, is used later: each such commit left 8 MB on the disk until a restart", async () => {
  await using dir = await temporaryDir();
  await using writer = new Segments(dir.path, SEED);
  writer.makeReady();
  {
    using _full = replaceFiles(
      {
        openSync: () => {
          throw Object.assign(new Error("too many open files"), { code: "EMFILE" });
        },
      },
      {},
    );
    for (let times = 0; times < 3; times += 1)
      expect(() => writer.append(1, sized(1, 10))).toThrow("too many open files");
  }
  expect(writer.append(1, sized(1, 10))!.segment).toBe(1);
  expect(readdirSync(dir.path)).toEqual(["1.segment"]);
});

it("without room for a segment every commit is a transaction of its own", async () => {
  await using dir = await temporaryDir();
  // Block the making of segments, both when the log is opened and with the first commit.
  for (const id of [1, 2])
    mkdirSync(join(dir.path, "segments", `${id}.segment`), { recursive: true });
  const store = await openStore(storeIn(dir.path));
  for (let offset = 0; offset < 5; offset += 1) await commitOne(store, offset, 100);
  expectWhole(store, 5);
  await store[Symbol.asyncDispose]();
  expect(segmentsIn(dir.path)).toHaveLength(2);
});
