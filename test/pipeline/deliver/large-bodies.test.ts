import { describe, expect, it, vi } from "vitest";
import { BytesInFlight } from "../../../src/pipeline/deliver/bounds/bytes-in-flight.ts";
import type { Lane } from "../../../src/pipeline/deliver/lane/lane.ts";
import type { GateLane } from "../../../src/pipeline/deliver/bounds/send-gate.ts";
import { encodeTask } from "../../../src/pipeline/log/task-codec.ts";
import { partitionOf } from "../../../src/domain/partition.ts";
import { answer, HANG, OK, SimWorld } from "../../support/sim-world.ts";
import type { Behaviour } from "../../support/sim-world.ts";

/** A 32nd of the default, so that ten megabytes become 320 KiB; a partition has 1 MiB. */
const BUDGET = { maxPendingBytes: 4 * 1_048_576, laneBytes: 512 * 1_024 };
const TEN_MB = Buffer.alloc(320 * 1_024, "x");
const SMALL_MS = 100;

function hangingWorld(hung: number, partitions = 1): SimWorld {
  const world = new SimWorld({ partitions, delivery: BUDGET });
  for (let index = 0; index < hung; index += 1) {
    world.configure(`dst_hung_${index}`, { endpointId: `ep_hung_${index}` });
    world.behave(`dst_hung_${index}`, HANG);
  }
  return world;
}

function addDestinations(world: SimWorld, count: number, behaviour: Behaviour): void {
  for (let index = 0; index < count; index += 1) {
    world.configure(`dst_${index}`);
    world.behave(`dst_${index}`, behaviour);
  }
}

/**
 * Lets nothing be written for two seconds after `begin`, and expects that copies of large bodies do not fill more than the budget
 * meanwhile. Returns how many were made, from then on.
 */
async function copiesWithoutLog(world: SimWorld, begin: () => void): Promise<() => number> {
  let copies = 0;
  world.onAppend = (records) => {
    copies += records.filter(({ value }) => value.length > TEN_MB.length).length;
  };
  const { faults } = world.store;
  world.store.faults = { ...faults, appendFate: () => "lost" };
  begin();
  await world.clock.advance(2_000);
  expect(copies).toBeGreaterThan(1);
  expect(copies * TEN_MB.length).toBeLessThanOrEqual(BUDGET.maxPendingBytes);
  world.store.faults = faults;
  return () => copies;
}

/** Measures how long a small event of each endpoint, one per destination, waits for its request. */
async function waitsOf(world: SimWorld, endpoints: readonly string[]): Promise<number[]> {
  for (const endpointId of endpoints) {
    const id = endpointId.replace("ep", "dst");
    world.configure(id, { endpointId });
    world.behave(id, OK);
  }
  const sentAtMs = world.clock.now();
  for (const endpointId of endpoints) world.ingest({ endpointId });
  await world.clock.advance(14_000);
  return endpoints.map((endpointId) => {
    const [first] = world.requestsTo(endpointId.replace("ep", "dst"));
    return (first?.atMs ?? Number.POSITIVE_INFINITY) - sentAtMs;
  });
}

describe("large bodies", () => {
  it("regression: to 300 destinations that are down are copied a few at a time: one webhook of 10 MB took 3.6 GB", async () => {
    const world = new SimWorld({ delivery: BUDGET });
    const down: Behaviour = () => ({ afterMs: 5, reply: answer(503) });
    addDestinations(world, 300, down);
    await world.start();
    await world.clock.advance(100);
    const copies = await copiesWithoutLog(world, () => world.ingest({ body: TEN_MB }));
    await world.clock.until(() => copies() === 300, 300_000, 100);
  });

  it("that wait at 300 destinations are copied a few at a time when these are paused", async () => {
    const world = new SimWorld({ delivery: BUDGET });
    addDestinations(world, 300, HANG);
    await world.start();
    await world.clock.advance(100);
    for (let count = 0; count < 2; count += 1) world.ingest({ body: TEN_MB });
    await world.clock.advance(100);
    await copiesWithoutLog(world, () => {
      for (const id of world.destinations.keys()) world.configure(id, { status: "paused" });
    });
    await world.clock.until(() => world.held === 300, 10_000, 100);
  });

  it("regression: at one receiver that hangs delay nobody else: four of 10 MB kept their partition for the whole timeout", async () => {
    const world = hangingWorld(1);
    await world.start();
    for (let count = 0; count < 4; count += 1)
      world.ingest({ endpointId: "ep_hung_0", body: TEN_MB });
    await world.clock.advance(10);
    expect(Math.max(...(await waitsOf(world, ["ep_1", "ep_2", "ep_3"])))).toBeLessThan(SMALL_MS);
    expect(world.requestsTo("dst_hung_0")).toHaveLength(1);
    world.behave("dst_hung_0", OK);
    await world.clock.until(() => world.ended().size === 7, 300_000, 100);
  });

  it("regression: that were put off keep no place in front of others: their lanes waited on, with the bodies in memory", async () => {
    const waiting = new Set<GateLane>();
    const { wait, forget } = BytesInFlight.prototype;
    vi.spyOn(BytesInFlight.prototype, "wait").mockImplementation(function waits(
      this: BytesInFlight,
      lane,
      body,
    ) {
      wait.call(this, lane, body);
      waiting.add(lane);
    });
    vi.spyOn(BytesInFlight.prototype, "forget").mockImplementation(function forgets(
      this: BytesInFlight,
      lane,
    ) {
      waiting.delete(lane);
      return forget.call(this, lane);
    });
    const world = hangingWorld(6);
    await world.start();
    world.ingest({ endpointId: "ep_hung_0", body: TEN_MB.subarray(0, 200 * 1_024) });
    await world.clock.advance(50);
    let most = 0;
    for (let index = 1; index < 6; index += 1) {
      world.ingest({ endpointId: `ep_hung_${index}`, body: TEN_MB.subarray(0, 300 * 1_024) });
      await world.clock.advance(100);
      most = Math.max(most, waiting.size);
      await world.clock.advance(2_200);
    }
    vi.restoreAllMocks();
    expect(most).toBeGreaterThan(0);
    expect([...waiting].map((lane) => (lane as Lane).queued)).toEqual([]);
  });

  it("regression: at five receivers that hang delay nobody in the process: all of its partitions stood for the whole timeout", async () => {
    const world = hangingWorld(5, 8);
    await world.start();
    for (let count = 0; count < 20; count += 1)
      world.ingest({ endpointId: `ep_hung_${count % 5}`, body: TEN_MB.subarray(0, 288 * 1_024) });
    await world.clock.advance(10);
    const endpoints = Array.from({ length: 40 }, (_, index) => `ep_${index}`);
    expect(new Set(endpoints.map((id) => partitionOf(id, 8))).size).toBe(8);
    expect(Math.max(...(await waitsOf(world, endpoints)))).toBeLessThan(SMALL_MS);
  });

  it("at many receivers of one partition that hang delay nobody else on it, those that are new included", async () => {
    const world = hangingWorld(8);
    await world.start();
    for (let count = 0; count < 32; count += 1)
      world.ingest({ endpointId: `ep_hung_${count % 8}`, body: TEN_MB });
    await world.clock.advance(10);
    expect(Math.max(...(await waitsOf(world, ["ep_1", "ep_2", "ep_3"])))).toBeLessThan(SMALL_MS);
  });

  it("regression: at a receiver that worked until then, and hangs, delay nobody else: six of its tries took all of the budget", async () => {
    const world = hangingWorld(1);
    world.behave("dst_hung_0", OK);
    await world.start();
    for (let count = 0; count < 2; count += 1) {
      world.ingest({ endpointId: "ep_hung_0", body: TEN_MB });
      await world.clock.advance(100);
    }
    world.behave("dst_hung_0", HANG);
    for (let count = 0; count < 6; count += 1)
      world.ingest({ endpointId: "ep_hung_0", body: TEN_MB });
    await world.clock.advance(10);
    expect(Math.max(...(await waitsOf(world, ["ep_1", "ep_2", "ep_3"])))).toBeLessThan(SMALL_MS);
  });

  it("regression: that are not due yet count as well: four that came out of a delay tier a second early kept their partition until then", async () => {
    const world = hangingWorld(1);
    world.behave("dst_hung_0", OK);
    await world.start();
    const dueAtMs = world.clock.now() + 1_800;
    for (let count = 0; count < 4; count += 1)
      world.store.write([
        {
          topic: "tasks",
          key: "ep_hung_0",
          value: encodeTask({
            event: world.makeEvent({ endpointId: "ep_hung_0", body: TEN_MB }),
            destinationId: "dst_hung_0",
            run: "event",
            trigger: "event",
            tryNumber: 1,
            deferrals: 1,
            limitedBy: null,
            putOffByReceiverAtMs: null,
            dueAtMs,
            runStartedAtMs: world.clock.now(),
          }),
        },
      ]);
    await world.clock.advance(10);
    // The log asks for room only after it has handed something over.
    world.ingest({ endpointId: "ep_none" });
    await world.clock.advance(10);
    expect(Math.max(...(await waitsOf(world, ["ep_1", "ep_2", "ep_3"])))).toBeLessThan(SMALL_MS);
    await world.clock.until(() => world.ended().size === 7, 60_000, 100);
  });

  it("regression: larger than the budget of a partition are delivered, and delay nobody while their receiver hangs: it stood still", async () => {
    const world = hangingWorld(1);
    await world.start();
    // Stands for a hundred megabytes.
    world.ingest({ endpointId: "ep_hung_0", body: Buffer.alloc(10 * TEN_MB.length, "x") });
    await world.clock.advance(10);
    expect(Math.max(...(await waitsOf(world, ["ep_1", "ep_2", "ep_3"])))).toBeLessThan(SMALL_MS);
    world.behave("dst_hung_0", OK);
    await world.clock.until(() => world.ended().size === 4, 300_000, 100);
    expect([...world.ended().values()].every(({ status }) => status === "delivered")).toBe(true);
    await world.clock.advance(5_000);
    expect(world.pendingBytes).toBe(0);
  });

  it("of several receivers that are new wait for each other's bytes, not for a delay tier", async () => {
    const world = new SimWorld({ delivery: BUDGET });
    for (let index = 0; index < 4; index += 1) {
      world.configure(`dst_${index}`, { endpointId: `ep_${index}` });
      world.behave(`dst_${index}`, () => ({ afterMs: 300, reply: answer(200) }));
    }
    await world.start();
    // Two such bodies are more than unproven lanes may have in flight.
    const body = TEN_MB.subarray(0, 200 * 1_024);
    for (let index = 0; index < 2; index += 1) world.ingest({ endpointId: `ep_${index}`, body });
    await world.clock.until(() => world.ended().size === 2, 1_500, 10);
    expect(world.deferrals).toEqual([]);
    const [first, second] = world.seen.map(({ atMs }) => atMs);
    expect(second! - first!).toBeGreaterThan(290);
    expect(second! - first!).toBeLessThan(320);
  });

  it("of a backlog at a receiver that takes its time come back as far apart as they can be sent: each was put off thirty times", async () => {
    const world = new SimWorld({ delivery: BUDGET });
    world.configure("dst_1");
    world.behave("dst_1", () => ({ afterMs: 2_500, reply: answer(200) }));
    await world.start();
    const count = 120;
    for (let made = 0; made < count; made += 1)
      world.ingest({ body: Buffer.alloc(96 * 1_024, "x") });
    await world.clock.until(() => world.ended().size === count, 300_000, 1_000);
    expect(world.requestsTo("dst_1")).toHaveLength(count);
    expect(world.deferrals.length).toBeLessThan(10 * count);
  });

  it("regression: of a backlog at a fast receiver come back when it is their turn: up to two seconds early they filled the lane, were put off time and again, and drained at a sixth of its pace", async () => {
    const world = new SimWorld({
      delivery: { maxPendingBytes: 16 * 1_048_576, laneBytes: 2 * 1_048_576 },
    });
    world.configure("dst_1");
    world.behave("dst_1", () => ({ afterMs: 50, reply: { ...answer(200), latencyMs: 50 } }));
    await world.start();
    const [count, startedMs] = [200, world.clock.now()];
    for (let made = 0; made < count; made += 1)
      world.ingest({ body: Buffer.alloc(300 * 1_024, "x") });
    await world.clock.until(() => world.ended().size === count, 300_000, 100);
    expect(world.clock.now() - startedMs).toBeLessThan(20_000);
    expect(world.deferrals.length).toBeLessThan(3 * count);
  });

  it("all arrive when many come at once to receivers that are well", async () => {
    const world = new SimWorld({ delivery: BUDGET });
    for (let index = 0; index < 6; index += 1) {
      world.configure(`dst_${index}`, { endpointId: `ep_${index}` });
      world.behave(`dst_${index}`, () => ({ afterMs: 50, reply: answer(200) }));
    }
    await world.start();
    for (let count = 0; count < 60; count += 1)
      world.ingest({ endpointId: `ep_${count % 6}`, body: TEN_MB });
    await world.clock.until(() => world.ended().size === 60, 60_000, 100);
    expect(new Set(world.seen.map(({ attempt }) => attempt))).toEqual(new Set([1]));
    expect(world.seen).toHaveLength(60);
  });
});

describe("bytes in flight", () => {
  const whole = (): BytesInFlight => new BytesInFlight(4_096, null);
  const lane = (proven: boolean): GateLane & { pumped: number } => ({
    inFlight: 0,
    proven,
    pumped: 0,
    pump() {
      this.pumped += 1;
    },
  });

  it("are counted once for all destinations of an event", () => {
    const bytes = whole();
    const shared = new Uint8Array(1_000);
    const ends = Array.from({ length: 10 }, () => bytes.start(lane(false), shared));
    expect(bytes.hasRoom(lane(false), new Uint8Array(500))).toBe(true);
    expect(bytes.hasRoom(lane(false), new Uint8Array(600))).toBe(false);
    for (const end of ends) end();
    expect(bytes.hasRoom(lane(false), new Uint8Array(1_500))).toBe(true);
  });

  it("of those that are not proven leave room for small bodies and for those that are", () => {
    const bytes = whole();
    bytes.start(lane(false), new Uint8Array(100_000));
    expect(bytes.hasRoom(lane(false), new Uint8Array(100))).toBe(false);
    expect(bytes.hasRoom(lane(false), new Uint8Array(16))).toBe(true);
    expect(bytes.hasRoom(lane(true), new Uint8Array(1_000))).toBe(true);
  });

  it("wake who waits for them in its partition and in the process, and nobody who is gone", () => {
    const process = whole();
    const [one, other] = [new BytesInFlight(1_024, process), new BytesInFlight(1_024, process)];
    const large = new Uint8Array(1_600);
    const end = one.start(lane(false), large);
    const [here, there, gone] = [lane(false), lane(false), lane(false)];
    for (const [partition, waiting] of [
      [one, here],
      [other, there],
      [other, gone],
    ] as const) {
      expect(partition.hasRoom(waiting, new Uint8Array(300))).toBe(false);
      partition.wait(waiting, new Uint8Array(300));
    }
    other.forget(gone);
    end();
    expect([here.pumped, there.pumped, gone.pumped]).toEqual([1, 1, 0]);
  });

  it("regression: keep the turn of a lane that asks again: one with new events all the time was behind every other one in the process", () => {
    const process = whole();
    const [one, other] = [new BytesInFlight(4_096, process), new BytesInFlight(4_096, process)];
    const end = new BytesInFlight(4_096, process).start(lane(false), new Uint8Array(1_500));
    const pumped: string[] = [];
    const named = (name: string): GateLane => ({ ...lane(false), pump: () => pumped.push(name) });
    const [first, second] = [named("first"), named("second")];
    const body = new Uint8Array(300);
    one.wait(first, body);
    other.wait(second, body);
    one.wait(first, body);
    end();
    expect(pumped).toEqual(["first", "second"]);
  });
});
