import { expect, it } from "vitest";
import {
  concludeDead,
  concludeRateLimited,
  concludeTry,
} from "../../../src/pipeline/deliver/try/conclude.ts";
import { firstTry } from "../../../src/domain/delivery-task.ts";
import { SimWorld } from "../../support/sim-world.ts";

function aFailedTry() {
  const world = new SimWorld();
  world.configure("dst_1");
  const config = world.destinations.get("dst_1")!;
  const nowMs = world.clock.now();
  const task = firstTry(world.makeEvent(), "dst_1", nowMs);
  const tried = concludeTry({
    task,
    config,
    reply: { kind: "error", reason: "refused", latencyMs: 0.4 },
    startedAtMs: nowMs,
    nowMs,
    retryBaseMs: 1_000,
    random: () => 0.5,
  });
  return { task, tried, nowMs };
}

it("tells how long its request took, and null where none was made: ends without one stood among the answer times as 0 s", () => {
  const { task, tried, nowMs } = aFailedTry();
  expect(tried.tookMs).toBe(0.4);
  expect(concludeDead(task, "", "the destination was deleted", nowMs).tookMs).toBeNull();
  expect(concludeRateLimited(task, "", nowMs + 1, nowMs).tookMs).toBeNull();
});

it("regression: the row of a put-off try is not that of the try: the last owner's, answered late, was lost behind the next one's", () => {
  const { task, tried, nowMs } = aFailedTry();
  const putOff = () => concludeRateLimited(task, "", nowMs + 1, nowMs).attempt.id;
  expect(putOff()).toBe(putOff());
  expect(putOff()).not.toBe(tried.attempt.id);
});
