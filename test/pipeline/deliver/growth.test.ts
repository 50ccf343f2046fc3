import { describe, expect, it } from "vitest";
import { encodeEvent } from "../../../src/pipeline/log/event-codec.ts";
import { LogPositions } from "../../../src/pipeline/deliver/partition/log-positions.ts";
import { DELAY_TIERS } from "../../../src/domain/delay-tier.ts";
import { partitionOf } from "../../../src/domain/partition.ts";
import { endpointAt } from "../../support/endpoint-homes.ts";
import { answer, HANG, SimWorld } from "../../support/sim-world.ts";

it("what earlier owners delivered is not delivered again from the home that a grown log gives it", async () => {
  const world = new SimWorld();
  world.configure("dst_1");
  world.configure("dst_2");
  world.behave("dst_1", () => ({ afterMs: 10_000, reply: answer(200) }));
  const first = await world.start("first");
  const event = world.ingest();
  await world.clock.advance(1_000);
  expect(world.attempts().map((row) => row.destinationId)).toEqual(["dst_2"]);
  void world.store.kill(first, 100);
  await world.clock.advance(200);
  const grown = [2, 3, 5, 7].find((count) => partitionOf(event.endpointId, count) !== 0);
  world.store.grow(grown ?? 0);
  await world.start("second");
  await world.clock.advance(60_000);
  expect(world.store.committed("delivery", "events", 0)?.offset).toBe(1);
  expect(world.requestsTo("dst_1")).toHaveLength(2);
  expect(world.requestsTo("dst_2")).toHaveLength(1);
  expect(world.ended().size).toBe(2);
  expect(world.errors).toEqual([]);
});

it("regression: held tasks go on as fast after the log has grown: an owner waited half a minute for each two hundred to come back, which went to their new home", async () => {
  const world = new SimWorld();
  world.configure("dst_1", { status: "paused" });
  const first = await world.start("first");
  const event = world.makeEvent();
  for (let run = 0; run < 500; run += 1) world.replay(event, "dst_1", `run${run}`);
  await world.clock.advance(5_000);
  expect(world.held).toBe(500);
  await world.stop(first);
  const grown = [2, 3, 5, 7].find((count) => partitionOf(event.endpointId, count) !== 0);
  world.store.grow(grown ?? 0);
  await world.start("second");
  await world.clock.advance(1_000);
  world.configure("dst_1", { status: "active" });
  await world.clock.advance(20_000);
  expect(world.requestsTo("dst_1")).toHaveLength(500);
  expect(world.held).toBe(0);
});

describe("a log that grows beside owners that live on", () => {
  const MOVES = endpointAt({ 2: 0, 3: 1 });
  const STAYS = endpointAt({ 2: 1, 3: 1 });

  async function grownWorld() {
    const world = new SimWorld({ partitions: 2, delivery: { takeoverWaitMs: 17_000 } });
    world.configure("dst_moves", { endpointId: MOVES });
    world.configure("dst_stays", { endpointId: STAYS });
    for (const name of ["a", "b", "c"]) await world.start(name);
    await world.clock.advance(60_000);
    return world;
  }

  it("regression: delivers once what comes before its groups know of it: a try that hung kept the records open, and they were found again", async () => {
    const world = await grownWorld();
    world.behave("dst_stays", HANG);
    world.ingest({ endpointId: STAYS });
    await world.clock.advance(1_000);
    world.store.grow(3);
    for (let count = 0; count < 50; count += 1) world.ingest({ endpointId: MOVES });
    await world.clock.advance(5_000);
    void world.store.regroup();
    await world.clock.advance(120_000);
    expect(world.requestsTo("dst_moves")).toHaveLength(50);
    expect(world.errors).toEqual([]);
  });

  it("regression: delivers once what was sent home before it grew again: found once more, it went to the newest home, which knew nothing of it", async () => {
    const world = new SimWorld({ partitions: 2, delivery: { takeoverWaitMs: 17_000 } });
    const moves = endpointAt({ 2: 0, 3: 1, 5: 2 });
    const hangs = endpointAt({ 2: 0, 3: 0, 5: 0 });
    world.configure("dst_moves", { endpointId: moves });
    world.configure("dst_hangs", { endpointId: hangs });
    world.behave("dst_hangs", HANG);
    for (const name of ["a", "b", "c"]) await world.start(name);
    await world.clock.advance(60_000);
    world.store.grow(3);
    void world.store.regroup();
    await world.clock.advance(30_000);
    world.ingest({ endpointId: hangs });
    await world.clock.advance(1_000);
    const events = Array.from({ length: 20 }, () => world.makeEvent({ endpointId: moves }));
    world.store.write(
      events.map((event) => ({
        topic: "events",
        key: moves,
        partition: 0,
        value: encodeEvent(event),
      })),
    );
    await world.clock.advance(5_000);
    expect(world.requestsTo("dst_moves")).toHaveLength(20);
    world.store.grow(5);
    void world.store.regroup();
    await world.clock.advance(120_000);
    expect(world.requestsTo("dst_moves")).toHaveLength(20);
    expect(world.store.committed("delivery", "events", 0)?.offset).toBe(
      world.store.endOffset("events", 0),
    );
    // An event that comes late, placed by an outdated count, has been sent nowhere before: it goes straight home.
    const late = world.makeEvent({ endpointId: moves });
    for (const partition of [0, 1])
      world.store.write([{ topic: "events", key: moves, partition, value: encodeEvent(late) }]);
    await world.clock.advance(5_000);
    expect(world.requestsTo("dst_moves")).toHaveLength(21);
    expect(world.store.records("events", 2).slice(-2)).toMatchObject([
      { key: moves },
      { key: moves },
    ]);
    expect(world.errors).toEqual([]);
  });

  it("sends home what was written by who still knew of fewer", async () => {
    const world = await grownWorld();
    world.store.grow(3);
    void world.store.regroup();
    await world.clock.advance(30_000);
    const event = world.makeEvent({ endpointId: MOVES });
    world.store.write([{ topic: "events", key: MOVES, partition: 0, value: encodeEvent(event) }]);
    await world.clock.advance(5_000);
    expect(world.requestsTo("dst_moves")).toHaveLength(1);
    expect(world.store.records("events", 1).at(-1)?.key).toBe(MOVES);
  });
});

it("regression: a held task whose release was not durable is not made again after growth: it was released to another home, which knew of no end", async () => {
  const world = new SimWorld({ partitions: 2 });
  const endpointId = endpointAt({ 2: 0, 3: 1 });
  world.configure("dst_1", { endpointId, status: "paused" });
  const first = await world.start("first");
  world.replay(world.makeEvent({ endpointId }), "dst_1", "run0");
  await world.clock.until(() => world.held === 1, 60_000, 100);
  const [held] = world.store.records("held", 0);
  world.configure("dst_1", { status: "active" });
  await world.clock.until(() => world.held === 0, 60_000, 100);
  await world.clock.advance(1_000);
  expect(world.requestsTo("dst_1")).toHaveLength(1);
  await world.stop(first);
  // As if the process had died during that append, with the task written and made by then.
  world.store.records("held", 0).splice(1);
  const { committed } = world.store.group("delivery");
  const entry = committed.get("held/0")!;
  committed.set("held/0", { ...entry, offset: held!.offset });
  world.store.grow(3);
  for (const name of ["second", "third"]) await world.start(name);
  await world.clock.advance(120_000);
  expect(world.held).toBe(0);
  expect(world.requestsTo("dst_1")).toHaveLength(1);
  expect(world.errors).toEqual([]);
});

it("regression: a task that comes out of a delay tier twice is made once, though the log has grown between: the copy went to another owner, who knew of no end", async () => {
  const world = new SimWorld({ partitions: 4 });
  const endpointId = endpointAt({ 4: 0, 6: 2 });
  world.configure("dst_1", { endpointId });
  world.behave("dst_1", (_, nth) => ({ afterMs: 5, reply: answer(nth === 0 ? 503 : 200) }));
  const first = await world.start("first");
  world.ingest({ endpointId });
  await world.clock.until(() => world.requestsTo("dst_1").length === 2, 120_000, 100);
  await world.clock.advance(1_000);
  const tiers = DELAY_TIERS.flatMap(({ topic }) => world.store.all(topic));
  const waited = tiers.at(-1)!;
  await world.stop(first);
  world.store.grow(6);
  // As if its forwarder had published it and the commit was lost.
  const delay = world.store.group("delay");
  delay.committed.set(`${waited.topic}/${waited.partition}`, {
    offset: waited.offset,
    metadata: "",
  });
  await world.start("second");
  await world.clock.advance(120_000);
  expect(world.requestsTo("dst_1")).toHaveLength(2);
  expect(world.droppedDuplicates).toBe(1);
  expect(world.errors).toEqual([]);
});

it("records that land on another partition do not move the floors of this one", () => {
  const positions = new LogPositions();
  const record = { topic: "delay-1s", key: "ep_1", value: new Uint8Array(0) } as const;
  positions.onAppended(
    0,
    [record, record],
    [
      { partition: 1, offset: 900 },
      { partition: 0, offset: 4 },
    ],
  );
  expect(positions.floors().get("delay-1s")).toBe(5);
});
