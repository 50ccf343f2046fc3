import { describe, expect, it } from "vitest";
import type { DestinationConfig } from "../../../src/domain/destination.ts";
import { TOPICS, type OwnedPartition } from "../../../src/domain/log.ts";
import { HeldIndex } from "../../../src/pipeline/deliver/held/held-index.ts";
import { HeldTasks } from "../../../src/pipeline/deliver/held/held-tasks.ts";
import { firstTry } from "../../../src/domain/delivery-task.ts";

import { makeSilentLogger } from "../../support/silent-logger.ts";
import { SimClock, seededRandom } from "../../support/sim-clock.ts";
import { FAIL, OK, QUICK_BREAKER, SimWorld } from "../../support/sim-world.ts";
import { cpuSecondsOf } from "../../support/cpu-seconds.ts";

const HOUR = 3_600_000;
const DAY = 24 * HOUR;

describe("a paused destination", () => {
  it("holds what is queued, limited and waiting for a retry, and goes on within 60 s of its resume", async () => {
    const world = new SimWorld();
    world.configure("dst_1", { retryBackoff: "fixed" });
    world.behave("dst_1", FAIL);
    await world.start();
    for (let count = 0; count < 20; count += 1) world.ingest();
    await world.clock.advance(5_000);
    const before = world.seen.length;
    world.configure("dst_1", { status: "paused" });
    world.behave("dst_1", OK);
    await world.clock.advance(3_600_000);
    expect(world.seen).toHaveLength(before);
    expect(world.held).toBe(20);
    expect(world.store.committed("delivery", "tasks", 0)?.offset).toBe(20);
    world.configure("dst_1", { status: "active" });
    await world.clock.advance(60_000);
    expect(world.held).toBe(0);
    expect(world.ended().size).toBe(20);
    expect([...world.ended().values()].every((row) => row.tryNumber === 2)).toBe(true);
  });

  it("is resumed by the sweep when nobody tells of the change", async () => {
    const world = new SimWorld();
    world.configure("dst_1");
    await world.start();
    const event = world.makeEvent();
    world.configure("dst_1", { status: "paused" });
    world.replay(event, "dst_1", "run1");
    await world.clock.advance(10_000);
    expect(world.held).toBe(1);
    world.destinations.set("dst_1", { ...world.destinations.get("dst_1")!, status: "active" });
    await world.clock.advance(60_000);
    expect(world.ended().size).toBe(1);
  });

  it("keeps its held tasks through a kill, and releases each once", async () => {
    const world = new SimWorld();
    world.configure("dst_1", { status: "paused" });
    world.configure("dst_2", { status: "paused" });
    const first = await world.start("first");
    for (let count = 0; count < 500; count += 1) {
      const event = world.makeEvent();
      world.replay(event, "dst_1", `run${count}`);
      world.replay(event, "dst_2", `run${count}`);
    }
    await world.clock.advance(10_000);
    void world.store.kill(first, 100);
    await world.clock.advance(200);
    const second = await world.start("second");
    world.configure("dst_1", { status: "active" });
    await world.clock.advance(120_000);
    expect(world.requestsTo("dst_1")).toHaveLength(500);
    void world.store.kill(second, 100);
    await world.clock.advance(200);
    await world.start("third");
    world.configure("dst_2", { status: "active" });
    await world.clock.advance(120_000);
    expect(world.requestsTo("dst_1")).toHaveLength(500);
    expect(world.requestsTo("dst_2")).toHaveLength(500);
    const held = world.store.committed("delivery", "held", 0)!;
    expect(held.offset).toBe(world.store.records("held", 0).length);
  });

  it("regression: keeps its held tasks when the group's offsets are set to the end by hand: they were gone without a word", async () => {
    const world = new SimWorld();
    world.configure("dst_1", { status: "paused" });
    const first = await world.start("first");
    const group = world.store.group("delivery");
    for (let count = 0; count < 20; count += 1)
      world.replay(world.makeEvent(), "dst_1", `run${count}`);
    await world.clock.advance(10_000);
    expect(world.held).toBe(20);
    void world.store.kill(first, 100);
    await world.clock.advance(200);
    for (const topic of TOPICS)
      group.committed.set(`${topic}/0`, { offset: world.store.endOffset(topic, 0), metadata: "" });
    await world.start("second");
    world.configure("dst_1", { status: "active" });
    await world.clock.advance(120_000);
    expect(world.requestsTo("dst_1")).toHaveLength(20);
    const held = world.store.committed("delivery", "held", 0)!;
    expect(held.offset).toBe(world.store.records("held", 0).length);
  });

  it("is counted once when its tasks are released while its partition moves on: the gauge stayed below zero", async () => {
    const world = new SimWorld();
    world.configure("dst_1", { status: "paused" });
    await world.start("first");
    await world.start("second");
    for (let count = 0; count < 20; count += 1)
      world.replay(world.makeEvent(), "dst_1", `run${count}`);
    await world.clock.advance(10_000);
    expect(world.held).toBe(20);
    const { faults } = world.store;
    world.store.faults = { ...faults, appendMs: () => 8_000 };
    world.configure("dst_1", { status: "active" });
    await world.clock.advance(500);
    void world.store.rotate("delivery", false);
    await world.clock.advance(30_000);
    world.store.faults = faults;
    await world.clock.advance(120_000);
    expect(world.ended().size).toBe(20);
    expect(world.held).toBe(0);
  });

  it("whose circuit was open when it was paused goes on: a held task is the probe", async () => {
    const world = new SimWorld({ delivery: { breaker: QUICK_BREAKER, retryBaseMs: 1_000 } });
    world.configure("dst_1", { retryBackoff: "fixed", retryMaxAttempts: 10 });
    world.behave("dst_1", FAIL);
    await world.start();
    for (let count = 0; count < 10; count += 1) world.ingest();
    await world.clock.advance(5_000);
    expect(world.openCircuits).toBe(1);
    world.configure("dst_1", { status: "paused" });
    await world.clock.advance(120_000);
    world.behave("dst_1", OK);
    world.configure("dst_1", { status: "active" });
    await world.clock.advance(60_000);
    expect(world.held).toBe(0);
    expect(world.ended().size).toBe(10);
  });

  it("whose circuit had been open for half an hour goes on within 60 s of its resume, and loses nothing", async () => {
    const world = new SimWorld();
    world.configure("dst_1", { retryMaxAttempts: 2 });
    world.behave("dst_1", FAIL);
    await world.start();
    for (let count = 0; count < 360; count += 1) {
      world.ingest();
      await world.clock.advance(5_000);
    }
    const before = world.ended().size;
    world.configure("dst_1", { status: "paused" });
    await world.clock.advance(2 * 3_600_000);
    const held = 360 - before;
    expect(world.held).toBe(held);
    world.behave("dst_1", OK);
    world.configure("dst_1", { status: "active" });
    await world.clock.advance(60_000);
    expect(world.held).toBe(0);
    expect([...world.ended().values()].slice(before).map(({ status }) => status)).toEqual(
      Array(held).fill("delivered"),
    );
  });

  it("is looked at by one timer only, however often the configuration changes", async () => {
    const world = new SimWorld();
    world.configure("dst_1", { status: "paused", rateLimitMax: 1, rateLimitWindow: "hour" });
    await world.start();
    for (let count = 0; count < 300; count += 1)
      world.replay(world.makeEvent(), "dst_1", `run${count}`);
    await world.clock.advance(10_000);
    world.configure("dst_1", { status: "active" });
    await world.clock.advance(60_000);
    let timers = 0;
    const schedule = world.clock.schedule.bind(world.clock);
    world.clock.schedule = (delayMs, callback) => {
      if (delayMs === 200) timers += 1;
      return schedule(delayMs, callback);
    };
    for (let change = 0; change < 50; change += 1) world.notify("dst_1");
    await world.clock.advance(10_000);
    expect(world.held).toBeGreaterThan(0);
    expect(timers).toBeLessThanOrEqual(51);
  });

  it("drains at its own pace after the resume", async () => {
    const world = new SimWorld();
    world.configure("dst_1", { status: "paused", rateLimitMax: 10, rateLimitWindow: "second" });
    await world.start();
    for (let count = 0; count < 1_000; count += 1)
      world.replay(world.makeEvent(), "dst_1", `run${count}`);
    await world.clock.advance(10_000);
    expect(world.held).toBe(1_000);
    world.configure("dst_1", { status: "active" });
    await world.clock.until(() => world.ended().size === 1_000, 130_000, 1_000);
    const times = world.seen.map((seen) => seen.atMs);
    for (let at = 10; at < times.length; at += 1)
      expect(times[at]! - times[at - 10]!).toBeGreaterThanOrEqual(1_000);
  });

  it("goes on within 60 s of its resume where its limit has room: it waited for a whole window, as if what was held had been sent", async () => {
    const world = new SimWorld();
    world.configure("dst_1", { rateLimitMax: 10, rateLimitWindow: "hour" });
    await world.start();
    await world.clock.advance(3_000);
    for (let count = 0; count < 30; count += 1) world.ingest();
    await world.clock.advance(HOUR / 2);
    expect(world.seen).toHaveLength(10);
    world.configure("dst_1", { status: "paused" });
    await world.clock.advance(HOUR);
    expect(world.held).toBe(10);
    world.configure("dst_1", { status: "active" });
    await world.clock.advance(60_000);
    expect(world.seen).toHaveLength(20);
    await world.clock.advance(1.1 * HOUR);
    expect(world.seen).toHaveLength(30);
    const times = world.seen.map((seen) => seen.atMs);
    for (let at = 10; at < times.length; at += 1)
      expect(times[at]! - times[at - 10]!).toBeGreaterThanOrEqual(HOUR);
  });

  it("that is deleted ends its held tasks dead", async () => {
    const world = new SimWorld();
    world.configure("dst_1", { status: "paused" });
    await world.start();
    world.replay(world.makeEvent(), "dst_1", "run1");
    await world.clock.advance(1_000);
    world.remove("dst_1");
    await world.clock.advance(1_000);
    expect(world.attempts()).toMatchObject([
      { status: "dead", httpStatus: 0, responseBody: "the destination was deleted" },
    ]);
    expect(world.seen).toEqual([]);
  });

  it("that is paused longer than the retention ends them dead", async () => {
    const world = new SimWorld({ delivery: { retentionMs: DAY, heldSweepMs: 60_000 } });
    world.configure("dst_1", { status: "paused" });
    await world.start();
    world.replay(world.makeEvent(), "dst_1", "run1");
    await world.clock.advance(DAY / 2);
    world.replay(world.makeEvent(), "dst_1", "run2");
    await world.clock.advance(DAY / 2 + 120_000);
    expect(world.attempts().map((row) => [row.run, row.status])).toEqual([["run1", "dead"]]);
    await world.clock.advance(DAY);
    expect(world.attempts().map((row) => [row.run, row.status])).toEqual([
      ["run1", "dead"],
      ["run2", "dead"],
    ]);
    expect(world.attempts()[0]!.responseBody).toContain("retention");
  });

  it("ends the oldest run when its time is over, however many newer ones were held before it", async () => {
    const world = new SimWorld({
      delivery: { retentionMs: HOUR, retryBaseMs: HOUR / 6, heldSweepMs: 60_000 },
    });
    world.configure("dst_1", { retryBackoff: "fixed", retryMaxAttempts: 10 });
    world.behave("dst_1", FAIL);
    await world.start();
    const old = world.ingest();
    await world.clock.advance(0.75 * HOUR);
    world.configure("dst_1", { status: "paused" });
    for (let count = 0; count < 450; count += 1)
      world.replay(world.makeEvent(), "dst_1", `run${count}`);
    await world.clock.advance(HOUR / 6);
    expect(world.held).toBe(451);
    await world.clock.advance(HOUR / 6);
    expect([...world.ended().values()].map((row) => [row.eventId, row.status])).toEqual([
      [old.id, "dead"],
    ]);
    expect(world.held).toBe(450);
    await world.clock.advance(HOUR);
    expect(world.ended().size).toBe(451);
    expect(world.held).toBe(0);
    expect(world.errors).toEqual([]);
  });
});

describe("the index of held tasks", () => {
  it("finds the runs that began before a time, in order of the log, however they were held", () => {
    const index = new HeldIndex();
    const event = new SimWorld().makeEvent();
    const note = (offset: number, runStartedAtMs: number): void =>
      index.note(offset, {
        kind: "task",
        task: { ...firstTry(event, "dst_1", 0), runStartedAtMs },
      });
    note(5, 50);
    note(9, 10);
    note(3, 40);
    note(7, 20);
    expect(index.begunBefore("dst_1", 10, 4)).toEqual([]);
    expect(index.begunBefore("dst_1", 41, 4)).toEqual([3, 7, 9]);
    expect(index.begunBefore("dst_1", 41, 2)).toEqual([3, 7]);
    index.release("dst_1", [3, 7, 9]);
    expect(index.begunBefore("dst_1", 50, 4)).toEqual([]);
    note(11, 30);
    expect(index.begunBefore("dst_1", 50, 4)).toEqual([11]);
    expect(index.begunBefore("dst_2", 50, 4)).toEqual([]);
  });

  it("keeps the order of the log, in whatever order appends resolve and tasks are released", () => {
    const random = seededRandom(3);
    const index = new HeldIndex();
    const task = firstTry(new SimWorld().makeEvent(), "dst_1", 0);
    let held: number[] = [];
    let written = 0;
    for (let step = 0; step < 400; step += 1) {
      // Two batches are written interleaved, piece by piece, and the later one may resolve first.
      const batch = Array.from({ length: Math.ceil(random() * 40) }, () => (written += 1));
      const pieces = [batch.filter((n) => n % 4 < 2), batch.filter((n) => n % 4 >= 2)];
      for (const offset of (random() < 0.5 ? pieces : pieces.toReversed()).flat()) {
        index.note(offset, { kind: "task", task });
        index.note(offset, { kind: "task", task });
      }
      held.push(...batch);
      const count = Math.floor(random() * 50);
      expect(index.next("dst_1", count)).toEqual(held.slice(0, count));
      const released = held.filter((_, at) => random() < (at < 60 ? 0.6 : 0.02));
      index.release("dst_1", released);
      held = held.filter((offset) => !released.includes(offset));
      expect(index.lowest()).toBe(held[0]);
      expect(index.size).toBe(held.length);
    }
    expect(index.next("dst_1", held.length + 1)).toEqual(held);
  });

  it("regression: each of many that resolve behind a later one sorted all that is held", async () => {
    const index = new HeldIndex();
    const task = firstTry(new SimWorld().makeEvent(), "dst_1", 0);
    const [many, behind] = [200_000, 5_000];
    for (let offset = 0; offset < many; offset += 1) index.note(offset, { kind: "task", task });
    index.note(many + behind, { kind: "task", task });
    const seconds = await cpuSecondsOf(() => {
      for (let offset = many; offset < many + behind; offset += 1)
        index.note(offset, { kind: "task", task });
    });
    // Takes milliseconds; sorting anew for each would take minutes.
    expect(seconds).toBeLessThan(5);
    expect(index.next("dst_1", many + behind + 2)).toHaveLength(many + behind + 1);
  });
});

it("regression: held tasks whose records are gone with the log are left to the sweep: their marks were written five times a second", async () => {
  let writes = 0;
  const clock = new SimClock();
  const task = firstTry(new SimWorld().makeEvent(), "dst_1", clock.now());
  const held = new HeldTasks({
    clock,
    logger: makeSilentLogger(),
    partition: { partition: 0, read: async function* () {} } as unknown as OwnedPartition,
    retentionMs: DAY,
    log: { writesWhole: true },
    mayStart: () => true,
    lookUp: () => ({ kind: "found", value: { status: "active" } as DestinationConfig }),
    hasRoom: () => true,
    write: async () => {
      writes += 1;
      return [];
    },
    copied: (_task, work) => work(),
    deadRecord: () => {
      throw new Error("nothing ends");
    },
    onHeld: () => undefined,
    onDead: () => undefined,
  });
  held.index.note(5, { kind: "task", task });
  held.release("dst_1");
  await clock.advance(20_000);
  expect(writes).toBe(0);
  expect(held.index.has("dst_1")).toBe(true);
});
