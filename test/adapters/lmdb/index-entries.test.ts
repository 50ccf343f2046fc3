import fc from "fast-check";
import { expect, it } from "vitest";
import { openEnvironment } from "../../../src/adapters/lmdb/environment.ts";
import { putRows, removeRowsBelow } from "../../../src/adapters/lmdb/commit/index-entries.ts";
import { decodeRows, encodeRows, rowKey, streamKey } from "../../../src/adapters/lmdb/layout.ts";
import type { Row, StreamId } from "../../../src/adapters/lmdb/layout.ts";
import { packCommit } from "../../../src/adapters/lmdb/commit/pack-commit.ts";
import { openStore } from "../../../src/adapters/lmdb/store.ts";
import { storeIn, temporaryDir } from "../../support/log-lmdb.ts";

const STREAMS: readonly StreamId[] = [
  { topic: "events", partition: 0 },
  { topic: "events", partition: 1 },
  { topic: "tasks", partition: 0 },
];
const NOTHING = { groups: [], removedBelow: [], removedBlobs: [], refs: [], starts: [] };

const rowOf = (stream: StreamId, base: number, next: number, seq: number): Row => ({
  topic: stream.topic,
  partition: stream.partition,
  base,
  next,
  seq,
  positionBytes: base % 1_000,
  lengthBytes: next,
  hasChecksum: seq % 2 === 0,
  regionsInBlob: (seq % 60_000) + 1,
  lastAppendedAtMs: 1_700_000_000_000 + seq,
});

const step = fc.oneof(
  {
    weight: 3,
    // Commits put into the index together: each has some streams with a number of records.
    arbitrary: fc.record({
      kind: fc.constant("put" as const),
      commits: fc.array(
        fc.uniqueArray(
          fc.record({
            stream: fc.nat({ max: STREAMS.length - 1 }),
            records: fc.integer({ min: 1, max: 3 }),
          }),
          { maxLength: 3, selector: ({ stream }) => stream },
        ),
        { minLength: 1, maxLength: 150 },
      ),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      kind: fc.constant("remove" as const),
      stream: fc.nat({ max: STREAMS.length - 1 }),
      percent: fc.nat({ max: 105 }),
    }),
  },
);

it("rows are the same as in a plain list, however they share entries and wherever they are cut off", async () => {
  await using dir = await temporaryDir();
  const { path, mapSizeBytes } = storeIn(dir.path);
  const environment = openEnvironment(path, mapSizeBytes);
  const { index, root } = environment;
  const entriesOf = (stream: StreamId) => [
    ...index.getRange({
      start: rowKey(streamKey(stream), 0),
      end: rowKey(streamKey(stream), 2 ** 48 - 1),
    }),
  ];
  await fc.assert(
    fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 12 }), async (steps) => {
      await index.clearAsync();
      const model = STREAMS.map((): Row[] => []);
      const ends = STREAMS.map(() => 0);
      let seq = 1;
      for (const action of steps) {
        if (action.kind === "put") {
          const commits = action.commits.map((commit) =>
            commit.map(({ stream, records }) => {
              const base = ends[stream]!;
              const row = rowOf(STREAMS[stream]!, base, base + records, seq++);
              ends[stream] = row.next;
              model[stream]!.push(row);
              return row;
            }),
          );
          root.transactionSync(() => putRows(index, commits.map(encodeRows)));
        } else {
          const below = Math.floor((ends[action.stream]! * action.percent) / 100);
          const stream = STREAMS[action.stream]!;
          root.transactionSync(() => removeRowsBelow(index, streamKey(stream), below));
          model[action.stream] = model[action.stream]!.filter((row) => row.next > below);
        }
        for (const [number, stream] of STREAMS.entries()) {
          const entries = entriesOf(stream);
          const rows = (offset: number) =>
            entries.flatMap(({ key, value }) => decodeRows(stream, key, value, offset));
          expect(rows(0)).toEqual(model[number]);
          const middle = Math.floor(ends[number]! / 2);
          expect(rows(middle)).toEqual(model[number]!.filter((row) => row.next > middle));
        }
      }
    }),
    { numRuns: 100 },
  );
  await environment.root.close();
});

it("rows that do not follow one another have entries of their own: what a compaction rewrote comes after newer ones", async () => {
  await using dir = await temporaryDir();
  const { path, mapSizeBytes } = storeIn(dir.path);
  const environment = openEnvironment(path, mapSizeBytes);
  const { index, root } = environment;
  const [stream] = STREAMS;
  const rows = [rowOf(stream!, 7, 9, 1), rowOf(stream!, 0, 5, 2), rowOf(stream!, 5, 7, 3)];
  root.transactionSync(() => putRows(index, [encodeRows(rows)]));
  const found = [...index.getRange({})].flatMap(({ key, value }) =>
    decodeRows(stream!, key, value, 0),
  );
  expect(found).toEqual([rows[1], rows[2], rows[0]]);
  await environment.root.close();
});

it("rows of many commits share entries, and no entry is larger than half a page", async () => {
  await using dir = await temporaryDir();
  const { path, mapSizeBytes } = storeIn(dir.path);
  const environment = openEnvironment(path, mapSizeBytes);
  const { index, root } = environment;
  const [stream] = STREAMS;
  const commits = Array.from({ length: 1_000 }, (_, base) =>
    encodeRows([rowOf(stream!, base, base + 1, base + 1)]),
  );
  root.transactionSync(() => putRows(index, commits));
  const sizes = [...index.getRange({})].map(({ key, value }) => key.length + value.length);
  expect(sizes).toHaveLength(Math.ceil(1_000 / 64));
  expect(Math.max(...sizes)).toBeLessThan(2_000);
  await environment.root.close();
});

it("the store reads from any offset of an entry, as many rows as asked for", async () => {
  await using dir = await temporaryDir();
  const [stream] = STREAMS;
  const commit = (offset: number) => {
    const value = Buffer.alloc(10, offset);
    const records = [0, 1, 2].map((n) => ({
      offset: offset + n,
      keyBytes: Buffer.from("k"),
      value,
      appendedAtMs: 1,
    }));
    return packCommit([{ ...stream!, base: offset, next: offset + 3, records }], offset + 1);
  };
  let store = await openStore(storeIn(dir.path));
  for (let offset = 0; offset < 600; offset += 3)
    await store.commit({ ...NOTHING, packed: commit(offset) });
  await store[Symbol.asyncDispose]();
  store = await openStore(storeIn(dir.path));
  // One more commit, not yet in any entry.
  await store.commit({ ...NOTHING, packed: commit(600) });
  for (const offset of [0, 1, 190, 191, 192, 193, 300, 598, 599, 600, 602, 603])
    for (const limit of [1, 2, 70, 500]) {
      const all = Array.from({ length: 201 }, (_, n) => n * 3).filter((base) => base + 3 > offset);
      const got = store.rowsFrom(stream!, offset, limit).map((row) => row.base);
      expect(got).toEqual(all.slice(0, limit));
    }
  expect(store.lastRow(stream!)?.base).toBe(600);
  await store[Symbol.asyncDispose]();
});

it("entries of one row each, as an earlier version put them there, are read, followed and trimmed", async () => {
  await using dir = await temporaryDir();
  const options = storeIn(dir.path);
  const [stream] = STREAMS;
  const environment = openEnvironment(options.path, options.mapSizeBytes);
  for (let base = 0; base < 100; base += 1)
    environment.root.transactionSync(() =>
      putRows(environment.index, [encodeRows([rowOf(stream!, base, base + 1, base + 1)])]),
    );
  expect([...environment.index.getKeys({})]).toHaveLength(100);
  await environment.root.close();
  const store = await openStore(options);
  const records = [
    { offset: 100, keyBytes: Buffer.from("k"), value: Buffer.from("v"), appendedAtMs: 1 },
  ];
  const packed = packCommit([{ ...stream!, base: 100, next: 101, records }], 101);
  await store.commit({ ...NOTHING, packed, removedBelow: [[stream!, 42]] });
  const bases = store.rowsFrom(stream!, 0, 500).map((row) => row.base);
  expect(bases).toEqual(Array.from({ length: 59 }, (_, n) => 42 + n));
  await store[Symbol.asyncDispose]();
});
