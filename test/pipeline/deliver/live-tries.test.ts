import { expect, it } from "vitest";
import { LiveTries } from "../../../src/pipeline/deliver/partition/live-tries.ts";
import { firstTry } from "../../../src/domain/delivery-task.ts";
import { SimWorld } from "../../support/sim-world.ts";

const event = new SimWorld().makeEvent();
const task = firstTry(event, "dst_1", event.receivedAtMs);

it("a second copy of a try completes with the first", () => {
  const live = new LiveTries();
  const completed: string[] = [];
  const fail = (): void => expect.unreachable();
  expect(live.begin(task, () => completed.push("one"), fail)).toBe(true);
  expect(live.begin(task, () => completed.push("two"), fail)).toBe(false);
  live.end(task);
  expect(completed).toEqual(["one", "two"]);
  // No trace of it is left.
  expect(live.begin(task, fail, fail)).toBe(true);
});

it("a task that comes back before its deferral is known to be durable is not taken for a duplicate", () => {
  const live = new LiveTries();
  const order: string[] = [];
  live.begin(
    task,
    () => order.push("first complete"),
    () => expect.unreachable(),
  );
  const comesBack = { ...task, deferrals: 1 };
  live.begin(
    comesBack,
    () => expect.unreachable(),
    () => order.push("admitted again"),
  );
  live.end(task);
  expect(order).toEqual(["first complete", "admitted again"]);
});
