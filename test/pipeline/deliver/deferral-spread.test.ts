import { expect, test } from "vitest";
import { DeferralSpread } from "../../../src/pipeline/deliver/lane/deferral-spread.ts";

test("a backlog gets slots at the lane's pace, at least ten a second", () => {
  const spread = new DeferralSpread();
  expect([0, 1, 2].map(() => spread.next(1_000, 100))).toEqual([1_000, 1_010, 1_020]);
  const slow = new DeferralSpread();
  expect([0, 1, 2].map(() => slow.next(1_000, 0.1))).toEqual([1_000, 1_100, 1_200]);
});

test("a task that takes the room of several comes as much later than the one before it", () => {
  const spread = new DeferralSpread();
  expect([1, 32, 1].map((roomOf) => spread.next(1_000, 100, roomOf))).toEqual([
    1_000, 1_320, 1_330,
  ]);
});

test("tasks that are put off again and again are never put off for more than two minutes", () => {
  const spread = new DeferralSpread();
  let furthestMs = 0;
  // A hundred tasks come back every two seconds, for ten minutes.
  for (let nowMs = 0; nowMs < 600_000; nowMs += 20)
    furthestMs = Math.max(furthestMs, spread.next(nowMs, 1) - nowMs);
  expect(furthestMs).toBeGreaterThan(60_000);
  expect(furthestMs).toBeLessThanOrEqual(120_000);
});
