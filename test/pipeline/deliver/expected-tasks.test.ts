import { expect, it } from "vitest";
import type { DeliveryTask } from "../../../src/domain/delivery-task.ts";
import { ExpectedTasks } from "../../../src/pipeline/deliver/lane/expected-tasks.ts";

const TEN_MINUTES = 600_000;
const WALL_AHEAD_MS = 1_000_000;

function makeExpected() {
  let steadyMs = 0;
  let wallAheadMs = WALL_AHEAD_MS;
  const expected = new ExpectedTasks();
  const clocks = { clock: { now: () => steadyMs + wallAheadMs }, steadyNow: () => steadyMs };
  const task = (inMs: number, deferrals = 1) =>
    ({ deferrals, dueAtMs: WALL_AHEAD_MS + inMs }) as DeliveryTask;
  return {
    add: (inMs: number, plannedMs: number) => expected.add(WALL_AHEAD_MS + inMs, plannedMs, clocks),
    has: (inMs: number, deferrals?: number) => expected.has(task(inMs, deferrals)),
    take: (inMs: number, deferrals?: number) => expected.take(task(inMs, deferrals), steadyMs),
    wait: (ms: number) => void (steadyMs += ms),
    setWallClockOn: (ms: number) => void (wallAheadMs += ms),
    clear: () => expected.clear(),
  };
}

it("as many tasks as were put off until a time take their slots when they come back, and no other does", () => {
  const tasks = makeExpected();
  tasks.add(5_000, 4_990);
  tasks.add(5_000, 4_995);
  tasks.add(6_000, 5_990);
  expect(tasks.has(5_000)).toBe(true);
  expect(tasks.has(5_001)).toBe(false);
  // Never put off: it only happens to be due then.
  expect(tasks.has(5_000, 0)).toBe(false);
  expect(tasks.take(5_000, 0)).toBeNull();
  expect([1, 2, 3].map(() => tasks.take(5_000))).toEqual([4_990, 4_990, null]);
  expect(tasks.has(5_000)).toBe(false);
  expect(tasks.take(6_000)).toBe(5_990);
});

it("what never comes back is forgotten ten minutes after its time, in order, and what comes late until then is not", () => {
  const tasks = makeExpected();
  tasks.add(1_000, 1);
  tasks.add(2_000, 2);
  tasks.add(3_000, 3);
  tasks.wait(2_000 + TEN_MINUTES);
  tasks.add(2_000 + TEN_MINUTES, 4);
  expect([1_000, 2_000, 3_000].map((inMs) => tasks.has(inMs))).toEqual([false, true, true]);
  tasks.wait(2_000);
  expect(tasks.take(2_000 + TEN_MINUTES)).toBe(4);
  expect([2_000, 3_000].map((inMs) => tasks.has(inMs))).toEqual([false, false]);
});

it("what came back does not keep what never does", () => {
  const tasks = makeExpected();
  tasks.add(1_000, 1);
  tasks.add(2_000, 2);
  tasks.wait(1_000);
  tasks.take(1_000);
  tasks.wait(2_000 + TEN_MINUTES);
  tasks.add(3_000 + TEN_MINUTES, 3);
  expect(tasks.has(2_000)).toBe(false);
});

it("slots are kept when the wall clock is set on, or the machine has slept: all would have been given out anew", () => {
  const tasks = makeExpected();
  tasks.add(1_000, 1);
  tasks.setWallClockOn(24 * 3_600_000);
  tasks.add(24 * 3_600_000, 2);
  expect(tasks.take(1_000)).toBe(1);
});

it("a plan that is dropped is forgotten, and the one after it kept as long as any", () => {
  const tasks = makeExpected();
  tasks.add(1_000, 1);
  tasks.clear();
  expect(tasks.has(1_000)).toBe(false);
  tasks.add(1_000, 2);
  expect(tasks.take(1_000)).toBe(2);
});
