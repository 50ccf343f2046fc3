import fc from "fast-check";
import { expect, it } from "vitest";
import type { Row } from "../../../src/adapters/lmdb/layout.ts";
import { RowRing } from "../../../src/adapters/lmdb/row-ring.ts";

const STREAM = { topic: "events", partition: 47 } as const;
/** Offsets have 48 bits, lengths 32: as numbers they must come back to the last bit. */
const FAR = 2 ** 48 - 1_000_000;

type Step =
  | { readonly kind: "push"; readonly records: number }
  | { readonly kind: "shift" | "clear" }
  | { readonly kind: "dropBelow" | "dropTagged"; readonly back: number };

const steps = fc.array(
  fc.oneof(
    {
      weight: 12,
      arbitrary: fc.record({ kind: fc.constant("push" as const), records: fc.nat(3) }),
    },
    { weight: 6, arbitrary: fc.record({ kind: fc.constant("shift" as const) }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant("clear" as const) }) },
    {
      weight: 2,
      arbitrary: fc.record({
        kind: fc.constantFrom("dropBelow" as const, "dropTagged" as const),
        back: fc.nat(40),
      }),
    },
  ),
  { maxLength: 200 },
);

it("rows come back as they were, in order, however many have come and gone", () => {
  fc.assert(
    fc.property(steps, (all: readonly Step[]) => {
      const ring = new RowRing(STREAM);
      let kept: { readonly row: Row; readonly tag: number }[] = [];
      let next = FAR;
      let tag = 0;
      for (const step of all) {
        switch (step.kind) {
          case "push": {
            tag += step.records;
            const row: Row = {
              ...STREAM,
              base: next,
              next: next + step.records + 1,
              seq: next + 7,
              positionBytes: 2 ** 32 - 1,
              lengthBytes: 2 ** 31 + step.records,
              hasChecksum: next % 2 === 0,
              regionsInBlob: 65_535,
              lastAppendedAtMs: 1_795_000_000_123,
            };
            next = row.next;
            ring.push(row, tag);
            kept.push({ row, tag });
            break;
          }
          case "shift":
            ring.shift();
            kept = kept.slice(1);
            break;
          case "clear":
            ring.clear();
            kept = [];
            break;
          case "dropBelow":
            ring.dropBelow(next - step.back);
            kept = kept.filter(({ row }) => row.base >= next - step.back);
            break;
          case "dropTagged":
            ring.dropTagged(tag - step.back);
            kept = kept.filter((one) => one.tag > tag - step.back);
            break;
          default:
            step satisfies never;
        }
        const rows = kept.map(({ row }) => row);
        expect(ring.size).toBe(rows.length);
        expect(ring.from(0)).toEqual(rows);
        expect(ring.at(0)).toEqual(rows[0]);
        expect(ring.at(rows.length - 1)).toEqual(rows.at(-1));
        expect(ring.at(rows.length)).toBeUndefined();
        expect(ring.at(-1)).toBeUndefined();
        const offset = next - 11;
        const from = rows.filter((row) => row.next > offset);
        expect(ring.from(offset)).toEqual(from);
        expect(ring.from(offset, 2)).toEqual(from.slice(0, 2));
      }
    }),
    { numRuns: 300 },
  );
});

it("all rows are kept when it grows, wherever in it the oldest one stands", () => {
  for (let gone = 0; gone <= 16; gone += 1) {
    const ring = new RowRing(STREAM);
    const rows = Array.from({ length: 60 }, (_, base) => ({
      ...STREAM,
      base,
      next: base + 1,
      seq: base,
      positionBytes: base,
      lengthBytes: 1,
      hasChecksum: true,
      regionsInBlob: 1,
      lastAppendedAtMs: base,
    }));
    for (const row of rows.slice(0, 16)) ring.push(row);
    for (let count = 0; count < gone; count += 1) ring.shift();
    for (const row of rows.slice(16)) ring.push(row);
    expect(ring.from(0)).toEqual(rows.slice(gone));
  }
});
