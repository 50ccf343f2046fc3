import { expect, test } from "vitest";
import type { OwnedPartition } from "../../../src/domain/log.ts";
import { BatchBuffer } from "../../../src/pipeline/record/batch-buffer.ts";
import {
  decodePlan,
  encodePlan,
  insertToken,
  makePlan,
  type BatchPlan,
  type OffsetRange,
} from "../../../src/pipeline/record/batch-plan.ts";

const own = (partition: number): OwnedPartition => ({ partition }) as OwnedPartition;
const entries = (from: number, count: number, sizeBytes = 1) =>
  Array.from({ length: count }, (_, index) => ({
    offset: from + index,
    row: from + index,
    sizeBytes,
  }));
const limits = { maxRows: 10, maxBytes: 1_000 };

function range(partition: number, from: number, to: number): OffsetRange {
  return { partition, from, to };
}

test("a batch is taken fairly from all partitions, up to its limits", () => {
  const buffer = new BatchBuffer<number>("events");
  const [a, b] = [own(0), own(1)];
  buffer.add(a, null);
  buffer.add(b, null);
  buffer.push(a, entries(100, 50));
  buffer.push(b, entries(7, 3));
  const batch = buffer.take(limits);
  expect(batch?.plan.ranges).toEqual([range(0, 100, 107), range(1, 7, 10)]);
  expect(batch?.rows).toHaveLength(10);
  expect(buffer.rows).toBe(43);
});

test("a batch that has just as many bytes as the limit is full", () => {
  const buffer = new BatchBuffer<number>("events");
  const partition = own(0);
  buffer.add(partition, null);
  buffer.push(partition, entries(0, 3, 500));
  expect(buffer.take(limits)?.rows).toEqual([0, 1]);
});

test("one record over the byte limit still goes, alone", () => {
  const buffer = new BatchBuffer<number>("events");
  const partition = own(0);
  buffer.add(partition, null);
  buffer.push(partition, entries(0, 3, 5_000));
  expect(buffer.take(limits)?.rows).toEqual([0]);
  expect(buffer.bytes).toBe(10_000);
});

test("a partition whose large records fill every batch does not keep the others waiting for as long as it has more", () => {
  const buffer = new BatchBuffer<number>("events");
  const [large, small] = [own(0), own(1)];
  buffer.add(large, null);
  buffer.add(small, null);
  buffer.push(large, entries(0, 6, 300));
  buffer.push(small, entries(0, 3));
  expect(buffer.take(limits)?.partitions).toEqual([large]);
  buffer.push(large, entries(6, 4, 300));
  expect(buffer.take(limits)?.plan.ranges).toEqual([range(0, 4, 8), range(1, 0, 3)]);
});

test("an announced batch is repeated exactly, once all of it is here, before anything else of its partitions", () => {
  const plan = makePlan("events", [range(0, 5, 8), range(1, 2, 3)]);
  const buffer = new BatchBuffer<number>("events");
  const [a, b] = [own(0), own(1)];
  buffer.add(a, plan);
  buffer.push(a, entries(5, 10));
  expect(buffer.takePlanned()).toBeNull();
  expect(buffer.take(limits)).toBeNull();
  buffer.add(b, plan);
  buffer.push(b, entries(2, 4));
  const batch = buffer.takePlanned();
  expect(batch?.plan.key).toBe(plan.key);
  expect(batch?.rows).toEqual([5, 6, 7, 2]);
  expect(buffer.take(limits)?.plan.ranges).toEqual([range(0, 8, 15), range(1, 3, 6)]);
});

test.each([
  ["no", null],
  ["another", makePlan("events", [range(1, 2, 3), range(9, 0, 1)])],
])(
  "an announced batch waits for the end of a partition whose commit announces %s batch, although its records are here: they may be in the store under another token",
  (_which, other) => {
    const buffer = new BatchBuffer<number>("events");
    const [a, b] = [own(0), own(1)];
    buffer.add(a, makePlan("events", [range(0, 5, 8), range(1, 2, 4)]));
    buffer.add(b, other);
    buffer.push(a, entries(5, 3));
    buffer.push(b, entries(2, 2));
    expect(buffer.takePlanned()).toBeNull();
    expect(buffer.rows).toBe(5);
  },
);

test("an announced batch waits for its last record", () => {
  const buffer = new BatchBuffer<number>("events");
  const partition = own(0);
  buffer.add(partition, makePlan("events", [range(0, 5, 8)]));
  buffer.push(partition, entries(5, 2));
  expect(buffer.takePlanned()).toBeNull();
  buffer.push(partition, entries(7, 1));
  expect(buffer.takePlanned()?.rows).toEqual([5, 6, 7]);
});

test("a repeated batch has its rows in the order of the first, whose longest partition was not the lowest", () => {
  const fill = (plan: BatchPlan | null): BatchBuffer<string> => {
    const buffer = new BatchBuffer<string>("events");
    for (const [partition, count] of [
      [0, 2],
      [1, 4],
      [2, 3],
    ] as const) {
      const owned = own(partition);
      buffer.add(owned, plan);
      for (let offset = 0; offset < count; offset += 1)
        buffer.push(owned, [{ offset, row: `${partition}/${offset}`, sizeBytes: 1 }]);
    }
    return buffer;
  };
  const first = fill(null).take(limits)!;
  const again = fill(decodePlan("events", encodePlan(first.plan))).takePlanned()!;
  expect(again.rows).toEqual(first.rows);
  expect(insertToken(again.plan, again.rows)).toBe(insertToken(first.plan, first.rows));
});

test("a plan that cannot be completed here is given up", () => {
  const buffer = new BatchBuffer<number>("events");
  const a = own(0);
  buffer.add(a, makePlan("events", [range(0, 0, 2), range(9, 0, 1)]));
  buffer.push(a, entries(0, 2));
  buffer.add(own(1), null);
  expect(buffer.hasPlans()).toBe(true);
  buffer.dropPlans();
  expect(buffer.hasPlans()).toBe(false);
  expect(buffer.take(limits)?.rows).toEqual([0, 1]);
});

test("what waits of a lost partition is forgotten, and late records of an earlier ownership are ignored", () => {
  const buffer = new BatchBuffer<number>("events");
  const [before, after] = [own(0), own(0)];
  buffer.add(before, null);
  buffer.push(before, entries(0, 5));
  buffer.remove(before);
  buffer.push(before, entries(5, 5));
  expect([buffer.rows, buffer.bytes]).toEqual([0, 0]);
  buffer.add(after, null);
  buffer.push(before, entries(5, 5));
  buffer.remove(before);
  buffer.push(after, entries(0, 1));
  expect(buffer.take(limits)).toMatchObject({ partitions: [after], rows: [0] });
});

test("of hundreds of partitions a batch takes as many as the commit's metadata holds, the others next", () => {
  const buffer = new BatchBuffer<number>("events");
  const many = Array.from({ length: 300 }, (_, partition) => own(partition));
  for (const partition of many) {
    buffer.add(partition, null);
    buffer.push(partition, entries(10 ** 12, 1));
  }
  const taken = new Set<number>();
  for (let batch = 0; batch < 4; batch += 1) {
    const { plan } = buffer.take({ maxRows: 1_000, maxBytes: 1_000 })!;
    expect(encodePlan(plan).length).toBeLessThanOrEqual(4_096);
    for (const { partition } of plan.ranges) taken.add(partition);
  }
  expect(taken.size).toBe(300);
});

test("a plan survives the commit's metadata, and foreign metadata is none", () => {
  const plan = makePlan("events", [range(3, 0, 7), range(1, 100, 101)]);
  expect(decodePlan("events", encodePlan(plan))).toEqual(plan);
  expect(decodePlan("events", "")).toBeNull();
  for (const foreign of ['{"v":9}', "1 2", "1 2 3 4", "1 2 x", "1 2 3,4 5", "1 2 3,"])
    expect(decodePlan("events", foreign)).toBeNull();
});

test("the same offsets of another log have another token", () => {
  const plan = makePlan("events", [range(0, 0, 2)]);
  const token = insertToken(plan, ["evt_1", "evt_2"]);
  expect(insertToken(plan, ["evt_1", "evt_2"])).toBe(token);
  expect(insertToken(plan, ["evt_3", "evt_4"])).not.toBe(token);
  expect(insertToken(makePlan("events", [range(0, 2, 4)]), ["evt_1", "evt_2"])).not.toBe(token);
});
