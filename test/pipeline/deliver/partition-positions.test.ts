import fc from "fast-check";
import { expect, it } from "vitest";
import type { LogRecord, OwnedPartition, Topic } from "../../../src/domain/log.ts";
import { PartitionPositions } from "../../../src/pipeline/deliver/partition/partition-positions.ts";

/** A partition whose last owner committed five events and forty ends; the log holds ten events and no tasks. */
const partition = {
  partition: 0,
  committed: (topic: Topic) => {
    if (topic === "events") return { offset: 5, metadata: "" };
    return topic === "attempts" ? { offset: 40, metadata: "" } : null;
  },
  endOffset: async (topic: Topic) => (topic === "events" ? 10 : 0),
} as unknown as OwnedPartition;
const event = (offset: number) => ({ topic: "events", offset }) as LogRecord;

it("a next owner reads on from the last one's ends until all that it may have worked on is complete here", async () => {
  const positions = new PartitionPositions(partition, () => undefined);
  const committed = (topic: Topic) =>
    positions.entries().find((entry) => entry.topic === topic)?.offset;
  await positions.markRedelivered(partition);
  // Covers what the recovery has read, and what is written from now on.
  positions.known.raise("attempts", 90);
  expect([committed("events"), committed("attempts")]).toEqual([5, 40]);
  for (const offset of [5, 6, 7]) positions.begin("events", event(offset));
  for (const offset of [5, 6, 7]) positions.complete("events", offset);
  expect([committed("events"), committed("attempts")]).toEqual([8, 40]);
  for (const offset of [8, 9]) positions.begin("events", event(offset));
  positions.complete("events", 9);
  expect([committed("events"), committed("attempts")]).toEqual([8, 40]);
  positions.complete("events", 8);
  expect([committed("events"), committed("attempts")]).toEqual([10, 90]);
  positions.begin("events", event(10));
  positions.known.raise("attempts", 95);
  expect([committed("events"), committed("attempts")]).toEqual([10, 90]);
});

it("regression: what is complete above a record that is not counts no longer as open: one try that hung stopped its partition once 50,000 later records were complete", async () => {
  const positions = new PartitionPositions(partition, () => undefined);
  for (let offset = 5; offset < 105; offset += 1) positions.begin("events", event(offset));
  for (let offset = 6; offset < 105; offset += 1) positions.complete("events", offset);
  positions.complete("events", 50);
  expect([positions.openCount, positions.spanCount]).toEqual([1, 100]);
  positions.complete("events", 5);
  expect([positions.openCount, positions.spanCount]).toEqual([0, 0]);
});

it("commits up to the lowest record that is not complete, whatever offsets the log has left out and whatever order they complete in", () => {
  const gapsAndOrder = fc.array(fc.tuple(fc.integer({ min: 1, max: 4 }), fc.nat()), {
    minLength: 1,
    maxLength: 30,
  });
  fc.assert(
    fc.property(gapsAndOrder, (drawn) => {
      const positions = new PartitionPositions(partition, () => undefined);
      const offsets: number[] = [];
      for (const [gap] of drawn) offsets.push((offsets.at(-1) ?? 4) + gap);
      for (const offset of offsets) positions.begin("events", event(offset));
      const end = offsets.at(-1)! + 1;
      const open = new Set(offsets);
      const byOrder = drawn.map(([, order], index) => ({ order, offset: offsets[index]! }));
      for (const { offset } of byOrder.toSorted((a, b) => a.order - b.order)) {
        // One of a gap, or beyond what was read, is nobody's.
        for (const stranger of [offset + 1, end]) {
          if (!offsets.includes(stranger)) positions.complete("events", stranger);
        }
        positions.complete("events", offset);
        open.delete(offset);
        const committed = positions.entries().find(({ topic }) => topic === "events")?.offset;
        expect(committed).toBe(Math.min(...open, end));
        expect(positions.openCount).toBe(open.size);
      }
    }),
  );
});
