import fc from "fast-check";
import { expect, it } from "vitest";
import { RecentBlobs } from "../../../src/adapters/lmdb/commit/recent-blobs.ts";

const CAPACITY = 100;

type Step =
  | { readonly do: "commit"; readonly sizes: readonly number[]; readonly fails: boolean }
  | { readonly do: "apply"; readonly allBut: number }
  | { readonly do: "remove"; readonly share: number }
  | { readonly do: "clear" };

const step: fc.Arbitrary<Step> = fc.oneof(
  {
    weight: 12,
    arbitrary: fc.record({
      do: fc.constant("commit" as const),
      // Some blobs fill the memory, some are larger.
      sizes: fc.array(fc.oneof(fc.integer({ min: 1, max: 12 }), fc.integer({ min: 1, max: 60 })), {
        maxLength: 3,
      }),
      fails: fc.boolean(),
    }),
  },
  {
    weight: 6,
    arbitrary: fc.record({ do: fc.constant("apply" as const), allBut: fc.nat({ max: 3 }) }),
  },
  {
    weight: 1,
    arbitrary: fc.record({
      do: fc.constant("remove" as const),
      share: fc.double({ min: 0, max: 1, noNaN: true }),
    }),
  },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("clear" as const) }) },
);

/** Makes the blobs of a commit, each with distinct bytes. */
function blobsOf(firstSeq: number, sizes: readonly number[]) {
  return sizes.map((size, index) => {
    const bytes = new Uint8Array(size).map((_, at) => firstSeq * 31 + index * 7 + at);
    return { seq: firstSeq + index, bytes };
  });
}

it("what readers of LMDB do not see yet is there, and nothing is ever given out for something else", () => {
  fc.assert(
    fc.property(fc.array(step, { maxLength: 80 }), (steps) => {
      const recent = new RecentBlobs(CAPACITY);
      const written = new Map<number, { id: number; bytes: Uint8Array }>();
      let id = 0;
      let appliedId = 0;
      let nextSeq = 1;
      for (const taken of steps) {
        if (taken.do === "commit") {
          const blobs = blobsOf(nextSeq, taken.sizes);
          const shared = recent.write(blobs);
          const sharedBytes = Buffer.concat(shared.blobs.map(({ bytes }) => bytes));
          expect(sharedBytes.equals(Buffer.concat(blobs.map(({ bytes }) => bytes)))).toBe(true);
          id += 1;
          // A commit that fails leaves its numbers to the next one.
          if (taken.fails) continue;
          recent.keep(id, shared);
          for (const { seq, bytes } of blobs) written.set(seq, { id, bytes });
          nextSeq += blobs.length;
        } else if (taken.do === "apply") {
          appliedId = Math.max(appliedId, id - taken.allBut);
          recent.applied(appliedId);
        } else if (taken.do === "remove") {
          const seq = Math.ceil((nextSeq - 1) * taken.share);
          recent.remove(seq);
          written.delete(seq);
          expect(recent.get(seq)).toBeNull();
        } else {
          recent.clear();
          written.clear();
        }
        for (let seq = 0; seq <= nextSeq; seq += 1) {
          const expected = written.get(seq);
          const found = recent.get(seq);
          if (expected !== undefined && expected.id > appliedId) expect(found).not.toBeNull();
          if (found !== null) expect(found.equals(expected!.bytes)).toBe(true);
        }
      }
    }),
    { numRuns: 2_000 },
  );
});

it("holds as many of the latest as there is room for once they are in LMDB", () => {
  const recent = new RecentBlobs(CAPACITY);
  for (let seq = 1; seq <= 50; seq += 1) {
    const blobs = blobsOf(seq, [10]);
    recent.keep(seq, recent.write(blobs));
    recent.applied(seq);
  }
  const found = Array.from({ length: 50 }, (_, n) => n + 1).filter((seq) => recent.get(seq));
  expect(found).toEqual([41, 42, 43, 44, 45, 46, 47, 48, 49, 50]);
});

it("gives the memory of its own that a commit got back when readers of LMDB see it, also when that is told first", () => {
  const recent = new RecentBlobs(CAPACITY);
  const large = blobsOf(1, [CAPACITY + 1]);
  recent.keep(1, recent.write(large));
  expect(recent.get(1)?.length).toBe(CAPACITY + 1);
  recent.applied(1);
  expect(recent.get(1)).toBeNull();
  const next = blobsOf(2, [CAPACITY + 1]);
  const shared = recent.write(next);
  recent.applied(2);
  recent.keep(2, shared);
  expect(recent.get(2)).toBeNull();
});
