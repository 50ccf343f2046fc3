import { expect, it } from "vitest";
import { IntakeBudget } from "../../../src/pipeline/deliver/bounds/intake-budget.ts";
import { answer, SimWorld } from "../../support/sim-world.ts";

/** Calls `each` for records of ten bytes, so small that each counts as a whole. */
function tens(count: number, each: (bytes: number) => void): void {
  for (let left = count; left > 0; left -= 1) each(10);
}

it("a partition that is given up takes nothing of the process's budget with it", async () => {
  const whole = new IntakeBudget(100);
  const lost = new IntakeBudget(50, whole);
  const kept = new IntakeBudget(50, whole);
  kept.add(10);
  tens(20, (bytes) => lost.add(bytes));
  const [lostHasRoom, keptHasRoom] = [lost.room(), kept.room()];
  lost.close();
  expect(whole.bytes).toBe(10);
  await Promise.all([lostHasRoom, keptHasRoom]);
  // What was in flight ends later, and is not given back a second time.
  tens(20, (bytes) => lost.release(bytes));
  expect(whole.bytes).toBe(10);
});

it("a partition that has room again waits on for the room of the whole process", async () => {
  const whole = new IntakeBudget(100);
  const one = new IntakeBudget(50, whole);
  const other = new IntakeBudget(200, whole);
  tens(15, (bytes) => other.add(bytes));
  tens(6, (bytes) => one.add(bytes));
  let goesOn = false;
  const waited = one.room()?.then(() => (goesOn = true));
  tens(6, (bytes) => one.release(bytes));
  await new Promise((resolve) => setImmediate(resolve));
  expect(goesOn).toBe(false);
  tens(10, (bytes) => other.release(bytes));
  await waited;
  expect(goesOn).toBe(true);
});

it("a record that is larger than a third counts for a third: what is beyond is not counted, nor given back", () => {
  const whole = new IntakeBudget(300);
  const part = new IntakeBudget(60, whole);
  for (const bytes of [1_000, 90]) part.add(bytes);
  expect([part.room(), whole.bytes]).toEqual([undefined, 1_090]);
  part.add(1_000);
  expect(part.room()).toBeUndefined();
  part.add(1);
  expect(part.room()).toBeInstanceOf(Promise);
  part.close();
  expect([whole.bytes, whole.room()]).toEqual([0, undefined]);
  tens(30, (bytes) => whole.add(bytes));
  expect(whole.room()).toBeUndefined();
  whole.add(1);
  expect(whole.room()).toBeInstanceOf(Promise);
});

it("rebalances with full lanes do not bring the intake to a stand", async () => {
  const world = new SimWorld({ partitions: 2, delivery: { maxPendingBytes: 40_000 } });
  const endpoints = Array.from({ length: 8 }, (_, index) => `ep_${index}`);
  for (const endpointId of endpoints) {
    const destinationId = endpointId.replace("ep", "dst");
    world.configure(destinationId, { endpointId });
    world.behave(destinationId, () => ({ afterMs: 1_500, reply: answer(200) }));
  }
  await world.start("a");
  await world.start("b");
  const body = Buffer.alloc(1_000, "x");
  const rounds = 6;
  for (let round = 0; round < rounds; round += 1) {
    for (const endpointId of endpoints)
      for (let count = 0; count < 20; count += 1) world.ingest({ endpointId, body });
    await world.clock.advance(300);
    void world.store.rotate("delivery", false);
    await world.clock.advance(6_000);
  }
  const events = rounds * 20 * endpoints.length;
  await world.clock.until(() => world.ended().size === events, 600_000, 1_000);
  expect(world.ended().size).toBe(events);
});

it("the gauge of pending bytes returns to zero when everything is complete", async () => {
  const world = new SimWorld();
  world.configure("dst_1");
  world.behave("dst_1", () => ({ afterMs: 500, reply: answer(200) }));
  await world.start();
  for (let count = 0; count < 5; count += 1) world.ingest({ body: Buffer.alloc(1_000, "x") });
  await world.clock.until(() => world.pendingBytes > 5_000, 10_000, 10);
  await world.clock.until(() => world.ended().size === 5, 10_000, 10);
  await world.clock.advance(5_000);
  expect(world.pendingBytes).toBe(0);
});
