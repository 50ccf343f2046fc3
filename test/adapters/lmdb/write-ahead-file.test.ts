import { cpSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import fc from "fast-check";
import { expect, it } from "vitest";
import { packCommit } from "../../../src/adapters/lmdb/pack-commit.ts";
import { openStore } from "../../../src/adapters/lmdb/store.ts";
import type { CommitStore } from "../../../src/adapters/lmdb/store.ts";
import { WriteAheadFile, type StoredCommit } from "../../../src/adapters/lmdb/write-ahead-file.ts";
import { temporaryDir } from "../../support/log-lmdb.ts";

// A Buffer, as what is read.
const bytes = (maxLength: number) => fc.uint8Array({ maxLength }).map((made) => Buffer.from(made));
const commit: fc.Arbitrary<StoredCommit> = fc.record({
  blobs: fc.array(fc.record({ seq: fc.nat(), bytes: bytes(300) }), {
    maxLength: 3,
  }),
  rows: bytes(100),
  groups: fc.array(fc.tuple(fc.string({ unit: "grapheme" }), fc.string()), { maxLength: 3 }),
});

const KEY = Buffer.from("ep_1");
const NOTHING = { groups: [], removedRows: [], removedBlobs: [], refs: [], starts: [] };
const STREAM = { topic: "events", partition: 0 } as const;

const filesIn = (dir: string) => ({
  path: join(dir, "log.mdb"),
  aheadPath: join(dir, "log.wal"),
  mapSizeBytes: 2 ** 32,
  cacheBytes: 0,
});

async function commitOne(store: CommitStore, offset: number, sizeBytes: number): Promise<void> {
  const records = [{ offset, keyBytes: KEY, value: Buffer.alloc(sizeBytes), appendedAtMs: 1 }];
  const streams = [{ ...STREAM, base: offset, next: offset + 1, records }];
  await store.commit({
    ...NOTHING,
    packed: packCommit(streams, store.lastSeq() + 1_000_000 + offset),
    groups: [["done", String(offset)]],
  });
}

function expectWhole(store: CommitStore, count: number): void {
  expectRows(store, count);
  expect(store.groupEntries()).toContainEqual(["done", String(count - 1)]);
}

it("what was written is read, in order and from any number on; what a crash cut short or changed is not", async () => {
  await using dir = await temporaryDir();
  const path = join(dir.path, "log.wal");
  fc.assert(
    fc.property(
      fc.array(commit, { minLength: 1, maxLength: 6 }),
      fc.integer({ min: 1, max: 1_000 }),
      fc.double({ min: 0, max: 0.999, noNaN: true }),
      fc.integer({ min: 1, max: 255 }),
      (commits, first, where, change) => {
        using file = new WriteAheadFile(path);
        file.clear();
        const ends = commits.map((one, index) => {
          expect(file.append(first + index, one)).toBe(true);
          return file.sizeBytes;
        });
        expect(file.read(first, Infinity)).toEqual(commits);
        expect(file.read(first, 1)).toEqual(commits.slice(0, 1));
        expect(file.read(first + 1_000, Infinity)).toEqual([]);
        const damagedAt = Math.floor(where * ends.at(-1)!);
        const content = readFileSync(path);
        content[damagedAt] = content[damagedAt]! ^ change;
        writeFileSync(path, content);
        const intact = ends.filter((end) => end <= damagedAt).length;
        expect(file.read(first, Infinity)).toEqual(commits.slice(0, intact));
      },
    ),
    { numRuns: 100 },
  );
});

it("what is left of earlier commits behind the latest one is not taken for new", async () => {
  await using dir = await temporaryDir();
  using file = new WriteAheadFile(join(dir.path, "log.wal"));
  const [one] = fc.sample(commit, { numRuns: 1, seed: 7 });
  for (const number of [1, 2, 3]) file.append(number, one!);
  file.clear();
  file.append(4, one!);
  expect(file.read(4, Infinity)).toEqual([one]);
  expect(file.read(1, Infinity)).toEqual([]);
});

it("a commit that does not fit is refused, and nothing of it written", async () => {
  await using dir = await temporaryDir();
  using file = new WriteAheadFile(join(dir.path, "log.wal"));
  const large: StoredCommit = {
    blobs: [{ seq: 1, bytes: new Uint8Array(5 * 1024 * 1024) }],
    rows: new Uint8Array(0),
    groups: [],
  };
  expect([file.append(1, large), file.append(2, large)]).toEqual([true, false]);
  expect(file.read(1, Infinity)).toHaveLength(1);
});

it("files as a crash leaves them, at any moment, hold every commit that was answered", async () => {
  await using dir = await temporaryDir();
  const live = join(dir.path, "live");
  mkdirSync(live);
  const store = await openStore(filesIn(live));
  // Sizes on both sides of what the write-ahead file takes, and sums on both sides of when it is emptied.
  const sizes = [10, 200_000, 1_500_000, 700_000, 900_000, 900_000, 20, 1_000_000, 30, 40];
  for (const [offset, sizeBytes] of sizes.entries()) {
    await commitOne(store, offset, sizeBytes);
    expectRows(store, offset + 1);
    const copy = join(dir.path, `crash-${offset}`);
    cpSync(live, copy, { recursive: true });
    const reopened = await openStore(filesIn(copy));
    expectWhole(reopened, offset + 1);
    await commitOne(reopened, offset + 1, 50);
    await reopened[Symbol.asyncDispose]();
    const again = await openStore(filesIn(copy));
    expectWhole(again, offset + 2);
    await again[Symbol.asyncDispose]();
  }
  await store[Symbol.asyncDispose]();
});

function expectRows(store: CommitStore, count: number): void {
  const rows = store.rowsFrom(STREAM, 0, Number.MAX_SAFE_INTEGER);
  expect(rows.map((row) => row.base)).toEqual(Array.from({ length: count }, (_, n) => n));
  expect(rows.every((row) => store.blob(row.seq) !== null)).toBe(true);
}

it("without room for a write-ahead file every commit is a transaction of its own", async () => {
  await using dir = await temporaryDir();
  mkdirSync(join(dir.path, "log.wal"));
  const store = await openStore(filesIn(dir.path));
  for (let offset = 0; offset < 5; offset += 1) await commitOne(store, offset, 100);
  expectWhole(store, 5);
  await store[Symbol.asyncDispose]();
});
