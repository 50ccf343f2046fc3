import { expect, it } from "vitest";
import { putRows } from "../../../src/adapters/lmdb/commit/index-entries.ts";
import { openEnvironment } from "../../../src/adapters/lmdb/environment.ts";
import { encodeRows } from "../../../src/adapters/lmdb/layout.ts";
import { packCommit } from "../../../src/adapters/lmdb/commit/pack-commit.ts";
import { openStore } from "../../../src/adapters/lmdb/store.ts";
import type { CommitStore } from "../../../src/adapters/lmdb/store.ts";
import { storeIn, temporaryDir } from "../../support/log-lmdb.ts";

const PARTITIONS = 50;
const NOTHING = { groups: [], removedBelow: [], removedBlobs: [], refs: [], starts: [] };
const keyBytes = Buffer.from("ep_1");

/** Commits one record for every partition. */
async function commitOffset(store: CommitStore, offset: number): Promise<void> {
  const value = Buffer.alloc(100, offset % 256);
  const streams = Array.from({ length: PARTITIONS }, (_, partition) => ({
    topic: "events" as const,
    partition,
    base: offset,
    next: offset + 1,
    records: [{ offset, keyBytes, value, appendedAtMs: 1 }],
  }));
  await store.commit({ ...NOTHING, packed: packCommit(streams, offset + 1) });
}

function expectAll(store: CommitStore, count: number): void {
  for (const partition of [0, 7, PARTITIONS - 1]) {
    const stream = { topic: "events" as const, partition };
    expect(store.lastRow(stream)?.next).toBe(count);
    const rows = store.rowsFrom(stream, 0, Number.MAX_SAFE_INTEGER);
    expect(rows.map((row) => row.base)).toEqual(Array.from({ length: count }, (_, n) => n));
    expect(store.rowsFrom(stream, count - 5, 3).map((row) => row.base)).toEqual([
      count - 5,
      count - 4,
      count - 3,
    ]);
    expect(rows.every((row) => store.region(row) !== null)).toBe(true);
  }
}

it("rows are found before and after they were put into the index, and after the files were opened again", async () => {
  await using dir = await temporaryDir();
  const options = storeIn(dir.path);
  let store = await openStore(options);
  let count = 0;
  // At most 4,096 rows may wait outside the index: 81 commits of 50.
  for (const until of [10, 80, 82, 100, 170]) {
    while (count < until) await commitOffset(store, count++);
    expectAll(store, count);
    await store[Symbol.asyncDispose]();
    store = await openStore(options);
    expectAll(store, count);
  }
  const trimmed = { topic: "events", partition: 7 } as const;
  await store.commit({
    ...NOTHING,
    packed: { blobs: [], rows: [] },
    removedBelow: [[trimmed, 169]],
  });
  expect(store.rowsFrom(trimmed, 0, 9).map((row) => row.base)).toEqual([169]);
  expect(store.rowsFrom({ topic: "events", partition: 8 }, 168, 9)).toHaveLength(2);
  await store[Symbol.asyncDispose]();
});

it("rows that are in LMDB already while this thread has not been told so are given once", async () => {
  await using dir = await temporaryDir();
  await using store = await openStore(storeIn(dir.path));
  // 4,096 rows are put into the index: with the 82nd commit of 50.
  let count = 0;
  while (count < 82) await commitOffset(store, count++);
  // Nothing that the commit thread tells is heard meanwhile.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 500);
  expectAll(store, count);
});

it("what the files hold counts once they were opened again, not what waited before: offsets would be given a second time", async () => {
  await using dir = await temporaryDir();
  const options = storeIn(dir.path);
  await using store = await openStore(options);
  await commitOffset(store, 0);
  const stream = { topic: "events", partition: 7 } as const;
  const row = store.lastRow(stream)!;
  // As a commit thread leaves it that died before it answered.
  const { root, index } = openEnvironment(options.path, options.mapSizeBytes);
  root.transactionSync(() => putRows(index, [encodeRows([{ ...row, base: 1, next: 2, seq: 2 }])]));
  await root.close();
  await store.reopen();
  expect(store.lastRow(stream)?.next).toBe(2);
});
