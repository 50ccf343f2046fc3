import { describe, expect, it } from "vitest";
import { partitionOf } from "../../../src/domain/partition.ts";
import { answer, SimWorld } from "../../support/sim-world.ts";

const TAKEOVER_MS = 20_000;
/** An endpoint for each of two partitions. */
const ENDPOINTS = [0, 1].map((partition) =>
  ["ep_a", "ep_b", "ep_c", "ep_d"].find((id) => partitionOf(id, 2) === partition)!,
);

/** Makes two processes with a partition each: the first stops with a try of `tryMs` in flight, and the partitions change hands. */
async function stoppingWorld(tryMs: number) {
  const world = new SimWorld({ partitions: 2, delivery: { takeoverWaitMs: TAKEOVER_MS } });
  for (const [index, endpointId] of ENDPOINTS.entries())
    world.configure(`dst_${index}`, { endpointId });
  world.behave("dst_0", (_, nth) => ({ afterMs: nth === 0 ? tryMs : 10, reply: answer(200) }));
  const first = await world.start("first");
  await world.clock.advance(1_000);
  await world.start("second");
  await world.clock.advance(1_000);
  const ingest = (partition: number) => world.ingest({ endpointId: ENDPOINTS[partition]! });
  ingest(0);
  await world.clock.advance(100);
  expect(world.seen.map(({ process }) => process)).toEqual(["first"]);
  void first.delivery[Symbol.asyncDispose]();
  await world.clock.advance(900);
  void world.store.rotate("delivery", false);
  await world.clock.advance(100);
  return { world, ingest };
}

describe("a process that is asked to stop while its partitions are taken away", () => {
  it.each([
    ["at once", 3_000, 100],
    ["when it has given them up", 9_000, 6_000],
  ])(
    "regression: %s, ends its tries: they were cut off, without a row, and made again by the next",
    async (_, tryMs, afterMs) => {
      const world = new SimWorld({ delivery: { takeoverWaitMs: TAKEOVER_MS } });
      world.configure("dst_0", { endpointId: ENDPOINTS[0]! });
      world.behave("dst_0", (__, nth) => ({ afterMs: nth === 0 ? tryMs : 10, reply: answer(200) }));
      const first = await world.start("first");
      await world.clock.advance(1_000);
      await world.start("second");
      await world.clock.advance(1_000);
      world.ingest({ endpointId: ENDPOINTS[0]! });
      await world.clock.advance(500);
      expect(world.seen.map(({ process }) => process)).toEqual(["first"]);
      void world.store.rotate("delivery", false);
      await world.clock.advance(afterMs);
      void first.delivery[Symbol.asyncDispose]();
      await world.clock.advance(500);
      expect(world.store.group("delivery").members).toHaveLength(1);
      expect(world.attempts()).toEqual([]);
      await world.clock.advance(3 * TAKEOVER_MS);
      expect(world.seen.map(({ process }) => process)).toEqual(["first"]);
      expect(world.attempts().map(({ status }) => status)).toEqual(["delivered"]);
      expect(world.errors).toEqual([]);
    },
  );
});

describe("a process that stops while partitions change hands", () => {
  it("regression: has its last word when its try has ended: it had none, and the next owner waited as after a crash", async () => {
    const { world, ingest } = await stoppingWorld(3_000);
    ingest(0);
    await world.clock.advance(3_000);
    expect(world.seen.map(({ process }) => process)).toEqual(["first", "second"]);
    expect(world.attempts().map(({ status }) => status)).toEqual(["delivered", "delivered"]);
  });

  it("records a try that takes longer than it may wait before it gives the partition up", async () => {
    const { world, ingest } = await stoppingWorld(12_000);
    ingest(0);
    await world.clock.advance(TAKEOVER_MS * 2);
    expect(world.seen.map(({ process }) => process)).toEqual(["first", "second"]);
    expect(world.attempts().map(({ status }) => status)).toEqual(["delivered", "delivered"]);
  });

  it("regression: begins nothing with what it is given, and leaves: what it sent was cut off, without a row, and sent again by the next", async () => {
    const { world, ingest } = await stoppingWorld(6_000);
    world.behave("dst_1", () => ({ afterMs: 8_000, reply: answer(200) }));
    ingest(1);
    await world.clock.advance(4_500);
    expect(world.store.group("delivery").members).toHaveLength(1);
    expect(world.attempts()).toEqual([]);
    await world.clock.advance(TAKEOVER_MS - 4_500);
    expect(world.seen.map(({ process }) => process)).toEqual(["first", "second"]);
    expect(world.attempts().map(({ status }) => status)).toEqual(["delivered", "delivered"]);
    expect(world.store.group("delivery").members).toHaveLength(1);
    expect(world.errors).toEqual([]);
  });
});

describe("a process that is asked to stop and cuts off a try that takes too long", () => {
  it.each(["rejected", "as an error"] as const)(
    "records nothing of it, since the receiver may have taken it (its request ends %s): the next owner makes it again",
    async (cutOffEnds) => {
      const world = new SimWorld({ delivery: { stopGraceMs: 5_000 } });
      world.cutOffEnds = cutOffEnds;
      world.configure("dst_0", { endpointId: ENDPOINTS[0]! });
      world.behave("dst_0", (_, nth) => ({
        afterMs: nth === 0 ? 14_000 : 10,
        reply: answer(200),
      }));
      const first = await world.start("first");
      await world.clock.advance(1_000);
      world.ingest({ endpointId: ENDPOINTS[0]! });
      await world.clock.advance(500);
      await world.stop(first);
      expect(world.attempts()).toEqual([]);
      await world.start("second");
      await world.clock.advance(TAKEOVER_MS * 2);
      expect(world.seen.map(({ process, attempt }) => [process, attempt])).toEqual([
        ["first", 1],
        ["second", 1],
      ]);
      expect(world.attempts().map(({ status }) => status)).toEqual(["delivered"]);
      expect(world.errors).toEqual([]);
    },
  );
});

describe("a process that stops while a destination waits for limits that were kept elsewhere", () => {
  it("regression: leaves no timer behind: it waited on for up to 20 s, and then read a partition that was no longer its own", async () => {
    const world = new SimWorld({ delivery: { takeoverWaitMs: TAKEOVER_MS } });
    world.configure("dst_0", { rateLimitMax: 10, rateLimitWindow: "minute" });
    const first = await world.start("first");
    await world.clock.advance(1_000);
    world.ingest();
    await world.clock.advance(1_000);
    expect(world.seen).toEqual([]);
    await world.stop(first);
    // The log's own, of at most 5 s.
    await world.clock.advance(6_000);
    expect(world.clock.waiting).toBe(0);
    expect(world.errors).toEqual([]);
  });
});
