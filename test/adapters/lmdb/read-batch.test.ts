import fc from "fast-check";
import { expect, it } from "vitest";
import { packCommit } from "../../../src/adapters/lmdb/commit/pack-commit.ts";
import type { Row } from "../../../src/adapters/lmdb/layout.ts";
import type { CommitStore } from "../../../src/adapters/lmdb/store.ts";
import { readBatch } from "../../../src/adapters/lmdb/streams/read-batch.ts";
import { StreamState } from "../../../src/adapters/lmdb/streams/stream-state.ts";

const KEY = Buffer.from("ep_1");
const HEAD_BYTES = 18 + KEY.length;

/** A stream and the blobs of its rows. */
class FilledStream {
  readonly state = new StreamState("events", 0);
  readonly rows: Row[] = [];
  readonly #blobs = new Map<number, Buffer>();
  lost: readonly number[] = [];

  /** Adds records of these sizes; `null` is an offset of which the record is gone. */
  commit(sizes: readonly (number | null)[]): void {
    const base = this.state.endOffset;
    const records = sizes.flatMap((sizeBytes, index) =>
      sizeBytes === null
        ? []
        : {
            offset: base + index,
            keyBytes: KEY,
            value: Buffer.alloc(sizeBytes, base + index),
            appendedAtMs: 1,
          },
    );
    const next = base + sizes.length;
    const streams = [{ topic: "events" as const, partition: 0, records, base, next }];
    const { blobs, rows } = packCommit(streams, this.rows.length + 1);
    for (const { seq, bytes } of blobs) this.#blobs.set(seq, Buffer.from(bytes));
    for (const row of rows) {
      this.rows.push(row);
      this.state.appended(row);
    }
  }

  /** Overwrites the blobs, as their memory is used again. */
  overwrite(): void {
    for (const blob of this.#blobs.values()) blob.fill(0xff);
  }

  get store(): CommitStore {
    const store: Pick<CommitStore, "rowsFrom" | "region"> = {
      rowsFrom: (_stream, offset, limit) =>
        this.rows.filter((row) => row.next > offset).slice(0, limit),
      region: ({ seq, positionBytes, lengthBytes }) =>
        this.lost.includes(seq)
          ? null
          : this.#blobs.get(seq)!.subarray(positionBytes, positionBytes + lengthBytes),
    };
    return store as CommitStore;
  }
}

const sizes = fc.array(fc.option(fc.nat({ max: 900 }), { freq: 4 }), {
  minLength: 1,
  maxLength: 6,
});

it("records of any sizes are all read, in order and as they were, in batches of the size asked for, or of one", () => {
  fc.assert(
    fc.property(
      fc.array(
        sizes.filter((all) => all.some((size) => size !== null)),
        { minLength: 1, maxLength: 20 },
      ),
      fc.integer({ min: 1, max: 3_000 }),
      fc.nat({ max: 30 }),
      (commits, maxBytes, from) => {
        const stream = new FilledStream();
        for (const commit of commits) stream.commit(commit);
        const wanted = commits
          .flat()
          .flatMap((size, offset) => (size === null || offset < from ? [] : { offset, size }));
        const read: { offset: number; size: number }[] = [];
        const values: Buffer[] = [];
        for (let next = from; next < stream.state.endOffset;) {
          const batch = readBatch(stream.store, stream.state, next, maxBytes);
          expect(batch.next).toBeGreaterThan(next);
          next = batch.next;
          for (const { offset, value } of batch.records) {
            read.push({ offset, size: value.length });
            values.push(value as Buffer);
          }
          const sizeBytes = batch.records.reduce((sum, { value }) => sum + value.length, 0);
          if (batch.records.length > 1)
            expect(sizeBytes + batch.records.length * HEAD_BYTES).toBeLessThanOrEqual(maxBytes);
        }
        expect(read).toEqual(wanted);
        // Records are kept for long, the memory they were read from is not.
        stream.overwrite();
        for (const [index, { offset, size }] of wanted.entries())
          expect(values[index]!.equals(Buffer.alloc(size, offset))).toBe(true);
      },
    ),
    { numRuns: 500 },
  );
});

it("records that are gone from where the index has them are told with their place, not waited for", () => {
  const stream = new FilledStream();
  for (let commit = 0; commit < 3; commit += 1) stream.commit([10, 10]);
  stream.lost = [2];
  expect(readBatch(stream.store, stream.state, 0, 30).next).toBe(1);
  expect(() => readBatch(stream.store, stream.state, 2, 1_000)).toThrow(
    "the embedded log has lost records of events/0 at offset 2",
  );
});

it("rows that were rewritten while the tail still has the earlier ones are read as they are now", () => {
  const stream = new FilledStream();
  for (let commit = 0; commit < 3; commit += 1) stream.commit([10, 10]);
  // The second row now begins in another blob: the tail's is gone.
  stream.rows[1] = { ...stream.rows[1]!, seq: 3 };
  stream.lost = [2];
  const { records, next } = readBatch(stream.store, stream.state, 2, 1_000);
  expect(records.map(({ offset }) => offset)).toEqual([2, 3, 4, 5]);
  expect(next).toBe(6);
});

it("a stream keeps its latest 256 rows in memory, and what lies before them is asked of the index", () => {
  const stream = new FilledStream();
  for (let commit = 0; commit < 300; commit += 1) stream.commit([1]);
  expect(stream.state.tailFrom(43, 1_000)).toBeNull();
  const bases = stream.state.tailFrom(44, 1_000)!.map(({ base }) => base);
  expect(bases).toEqual(Array.from({ length: 256 }, (_, n) => 44 + n));
  const first = readBatch(stream.store, stream.state, 0, 1);
  expect(first.records.map(({ offset }) => offset)).toEqual([0]);
});
