import { describe, expect, it } from "vitest";
import { KnownLimits, limitKey } from "../../../src/pipeline/deliver/limits/known-limits.ts";
import { decodeLimit, encodeLimit } from "../../../src/pipeline/deliver/limits/limits-codec.ts";
import type { LimitRecord } from "../../../src/pipeline/deliver/limits/limits-codec.ts";
import { partitionOf } from "../../../src/domain/partition.ts";
import { endpointAt } from "../../support/endpoint-homes.ts";
import { SimWorld } from "../../support/sim-world.ts";

const MINUTE = 60_000;
const MAX = 20;

function maxInAnyMinute(times: readonly number[]): number {
  return Math.max(
    ...times.map((from) => times.filter((time) => time >= from && time < from + MINUTE).length),
  );
}

describe("a limit per minute when the number of partitions grows", () => {
  it.each([
    ["stopped", 0],
    ["killed", 0],
    ["killed", 10_000],
  ] as const)(
    "holds at the new home of an endpoint whose old owner was %s, with %i ms to take over",
    async (how, takeoverWaitMs) => {
      const world = new SimWorld({ delivery: { takeoverWaitMs } });
      world.configure("dst_1", { rateLimitMax: MAX, rateLimitWindow: "minute" });
      const first = await world.start("first");
      await world.clock.advance(18_000);
      const event = world.ingest();
      for (let count = 1; count < 2 * MAX; count += 1) world.ingest();
      await world.clock.advance(5_000);
      expect(world.requestsTo("dst_1")).toHaveLength(MAX);
      if (how === "stopped") await world.stop(first);
      else {
        void world.store.kill(first, 100);
        await world.clock.advance(200);
      }
      const grown = [2, 3, 5, 7].find((count) => partitionOf(event.endpointId, count) !== 0);
      world.store.grow(grown ?? 0);
      // Ingested before the start, so that the new home has work before the old one has recovered.
      for (let count = 0; count < MAX; count += 1) world.ingest();
      await world.start("second");
      await world.clock.until(() => world.ended().size === 3 * MAX, 10 * MINUTE, 500);
      const times = world.requestsTo("dst_1").map((seen) => seen.atMs);
      expect(times.length).toBeGreaterThanOrEqual(3 * MAX);
      expect(maxInAnyMinute(times)).toBeLessThanOrEqual(MAX);
      expect(world.errors).toEqual([]);
    },
  );
});

describe("a limit per minute when the number of partitions grows beside owners that live on", () => {
  const PARTITIONS = 4;
  const GROWN = 6;

  it.each([
    ["one that there was before", endpointAt({ [PARTITIONS]: 0, [GROWN]: 2 })],
    ["a new one", endpointAt({ [PARTITIONS]: 0, [GROWN]: 4 })],
  ])(
    "regression: holds where the new home is %s: the owners of both homes used all of it",
    async (_, endpointId) => {
      const world = new SimWorld({
        partitions: PARTITIONS,
        delivery: { takeoverWaitMs: 10_000 },
      });
      world.configure("dst_1", { endpointId, rateLimitMax: MAX, rateLimitWindow: "minute" });
      await world.start("first");
      await world.start("second");
      await world.clock.advance(30_000);
      const ingest = (count: number) => {
        for (let left = count; left > 0; left -= 1) world.ingest({ endpointId });
      };
      ingest(2 * MAX);
      await world.clock.advance(5_000);
      expect(world.requestsTo("dst_1")).toHaveLength(MAX);
      // Appends see the growth before the groups do.
      world.store.grow(GROWN);
      ingest(2 * MAX);
      await world.clock.advance(10_000);
      expect(world.requestsTo("dst_1")).toHaveLength(MAX);
      void world.store.regroup();
      await world.clock.advance(3_000);
      // Its owner waits for the limits that were kept elsewhere, and so does the next one.
      void world.store.regroup();
      ingest(2 * MAX);
      await world.clock.until(() => world.ended().size === 6 * MAX, 20 * MINUTE, 500);
      const times = world.requestsTo("dst_1").map((seen) => seen.atMs);
      expect(times).toHaveLength(6 * MAX);
      expect(maxInAnyMinute(times)).toBeLessThanOrEqual(MAX);
      expect(world.errors).toEqual([]);
    },
  );
});

/** Makes a world in which the owner of an endpoint's old home dies while writing the limits that move; `torn` picks what is left. */
async function movingWorld(options: {
  readonly takeoverWaitMs: number;
  readonly torn: (slots: readonly string[]) => ReadonlySet<string>;
  readonly withoutCounts?: boolean;
}) {
  const endpointId = endpointAt({ 4: 0, 6: 2 });
  const { takeoverWaitMs, torn } = options;
  const world = new SimWorld({ partitions: 4, delivery: { takeoverWaitMs } });
  const { store } = world;
  store.writesWhole = false;
  if (options.withoutCounts === true) {
    const commit = store.commit.bind(store);
    store.commit = (group, partition, entries) =>
      commit(
        group,
        partition,
        entries.map((entry) => ({
          ...entry,
          metadata: entry.metadata?.replace(/ waits until - of .*/, "") ?? "",
        })),
      );
  }
  world.configure("dst_1", { endpointId, rateLimitMax: MAX, rateLimitWindow: "minute" });
  for (const name of ["a", "b", "c"]) await world.start(name);
  await world.clock.advance(90_000);
  const ingest = () => {
    for (let left = MAX; left > 0; left -= 1) world.ingest({ endpointId });
  };
  ingest();
  await world.clock.advance(1_000);
  store.faults = { ...store.faults, torn };
  store.watchAppend = (process, records) => {
    if (!records.some(({ topic, key }) => topic === "limits" && key.endsWith("|moved"))) return;
    store.watchAppend = null;
    void store.kill(process, 10_000);
  };
  store.grow(6);
  void store.regroup();
  await world.clock.advance(1_000);
  ingest();
  await world.clock.until(() => world.ended().size === 2 * MAX, 20 * MINUTE, 500);
  expect(store.watchAppend).toBeNull();
  return maxInAnyMinute(world.seen.map(({ atMs }) => atMs));
}

describe("limits that move, whose mover is killed", () => {
  it("regression: are not lost where the log keeps only what is left at the old home", async () => {
    const torn = (slots: readonly string[]) => new Set(slots.filter((slot) => slot === "limits/0"));
    expect(await movingWorld({ takeoverWaitMs: 17_000, torn })).toBeLessThanOrEqual(MAX);
  });

  it("regression: are waited for as long as a next owner needs to move them, however short a try may be", async () => {
    const torn = () => new Set<string>();
    expect(await movingWorld({ takeoverWaitMs: 3_000, torn })).toBeLessThanOrEqual(MAX);
  });

  it("regression: are waited for where the owner before was of an older version, and did not say how large the log was", async () => {
    const torn = () => new Set<string>();
    expect(
      await movingWorld({ takeoverWaitMs: 17_000, torn, withoutCounts: true }),
    ).toBeLessThanOrEqual(MAX);
  });
});

it("the first owner of a partition waits for limits from elsewhere, and loses no window by it", async () => {
  const world = new SimWorld({ delivery: { takeoverWaitMs: 10_000 } });
  world.configure("dst_1", { rateLimitMax: MAX, rateLimitWindow: "minute" });
  await world.start("first");
  for (let count = 0; count < MAX; count += 1) world.ingest();
  await world.clock.advance(16_000);
  expect(world.requestsTo("dst_1")).toHaveLength(0);
  await world.clock.advance(4_000);
  expect(world.requestsTo("dst_1")).toHaveLength(MAX);
});

describe("what the limits log knows", () => {
  const note = (
    limits: KnownLimits,
    key: string,
    limit: Partial<LimitRecord>,
    { offset = 0, appendedAtMs = 0 } = {},
  ) =>
    limits.note({
      topic: "limits",
      partition: 0,
      offset,
      key,
      appendedAtMs,
      value: encodeLimit({ destinationId: "dst_1", starts: [], block: null, ...limit }),
    });

  it("counts what came from another home beside its own, once where both know it", () => {
    const limits = new KnownLimits(0);
    note(limits, `${limitKey("ep_1", "dst_1")}|moved`, {
      starts: [
        [10, 1],
        [20, 2],
      ],
      block: { untilMs: 30, count: 3 },
      countedUntil: { minute: 121_000, hour: 7_201_000 },
    });
    note(limits, limitKey("ep_1", "dst_1"), {
      starts: [
        [20, 2],
        [25, 1],
      ],
      block: { untilMs: 40, count: 1 },
      countedUntil: { minute: 125_000 },
    });
    expect(limits.get("dst_1")).toEqual({
      destinationId: "dst_1",
      starts: [
        [10, 1],
        [20, 2],
        [25, 1],
        [30, 3],
      ],
      block: { untilMs: 40, count: 1 },
      countedUntil: { minute: 125_000, hour: 7_201_000 },
    });
  });

  it("regression: a record of an owner that was cut off, which arrives behind its successor's, takes nothing back", () => {
    const limits = new KnownLimits(0);
    const key = limitKey("ep_1", "dst_1");
    const successors: Partial<LimitRecord> = {
      starts: [
        [10, 7],
        [40, 12],
      ],
      block: { untilMs: 60, count: 1 },
    };
    note(limits, key, successors, { offset: 1, appendedAtMs: 45 });
    const cutOffs: Partial<LimitRecord> = { starts: [[10, 7]], block: { untilMs: 30, count: 2 } };
    note(limits, key, cutOffs, { offset: 2, appendedAtMs: 20 });
    expect(limits.get("dst_1")).toEqual({
      destinationId: "dst_1",
      starts: [
        [10, 7],
        [30, 2],
        [40, 12],
      ],
      block: { untilMs: 60, count: 1 },
    });
    const next: Partial<LimitRecord> = { starts: [[70, 1]] };
    note(limits, key, next, { offset: 3, appendedAtMs: 80 });
    expect(limits.get("dst_1")).toMatchObject({ ...next, block: null });
  });

  it("moves a state to its new home once: nothing is left of it at the old one", () => {
    const limits = new KnownLimits(0);
    note(limits, limitKey("ep_1", "dst_1"), { starts: [[10, 1]] });
    expect(limits.moves(0, () => 0).flat()).toEqual([]);
    const moves = limits.moves(0, () => 3).flat();
    expect(moves.map(({ key, partition }) => [key, partition])).toEqual([
      ["ep_1|dst_1|moved", 3],
      ["ep_1|dst_1", 0],
    ]);
    const next = new KnownLimits(0);
    for (const { key, partition, value } of moves)
      if (partition === 0)
        next.note({ topic: "limits", partition: 0, offset: 1, key, value, appendedAtMs: 0 });
    expect(next.moves(0, () => 3).flat()).toEqual([]);
  });

  it("moves on what had been moved to it, when the log grows again: nothing of either is left, or a later owner would move it once more", () => {
    const limits = new KnownLimits(0);
    note(limits, `${limitKey("ep_1", "dst_1")}|moved`, { starts: [[10, 1]] });
    note(limits, limitKey("ep_1", "dst_1"), { starts: [[20, 2]] }, { offset: 1 });
    const [there, here] = limits.moves(0, () => 3);
    expect(there.map(({ key, partition }) => [key, partition])).toEqual([["ep_1|dst_1|moved", 3]]);
    expect(decodeLimit(there[0]!.value).starts).toEqual([
      [10, 1],
      [20, 2],
    ]);
    for (const [index, { key, value }] of here.entries())
      limits.note({
        topic: "limits",
        partition: 0,
        offset: 2 + index,
        key,
        value,
        appendedAtMs: 30,
      });
    expect(limits.get("dst_1")).toBeNull();
    expect(limits.moves(0, () => 3).flat()).toEqual([]);
  });

  it("regression: keeps nothing of destinations that no window can count any more: it held every one that had ever had a limit", () => {
    const dayMs = 86_400_000;
    const limits = new KnownLimits(10 * dayMs);
    const key = limitKey("ep_1", "dst_1");
    note(limits, key, { starts: [[6 * dayMs, 1]], block: { untilMs: 6 * dayMs + 1, count: 1 } });
    expect(limits.get("dst_1")).toBeNull();
    expect(limits.moves(0, () => 3).flat()).toEqual([]);
    note(limits, key, { starts: [[8 * dayMs, 1]] }, { offset: 1 });
    expect(limits.get("dst_1")).toMatchObject({ starts: [[8 * dayMs, 1]] });
    note(limits, key, { starts: [] }, { offset: 2 });
    expect(limits.get("dst_1")).toBeNull();
  });
});
