import { expect, it } from "vitest";
import { planFanout } from "../../../src/pipeline/fanout/plan-fanout.ts";
import { SimWorld } from "../../support/sim-world.ts";

const world = new SimWorld();
const destinations = [
  world.configure("dst_1"),
  world.configure("dst_2", { status: "paused" }),
  world.configure("dst_3", { status: "disabled" }),
  world.configure("dst_4"),
];

it("gives an event to every active destination, and to no other", () => {
  const event = world.makeEvent();
  const { outcome, tasks } = planFanout(event, destinations, 5);
  expect(outcome).toMatchObject({ kind: "fanout", destinationIds: ["dst_1", "dst_4"], atMs: 5 });
  expect(tasks.map((task) => [task.destinationId, task.tryNumber, task.run])).toEqual([
    ["dst_1", 1, "event"],
    ["dst_4", 1, "event"],
  ]);
});

it("repeats what an earlier owner chose, whatever has changed since", () => {
  const { tasks } = planFanout(world.makeEvent(), destinations, 5, ["dst_2", "dst_9"]);
  expect(tasks.map((task) => task.destinationId)).toEqual(["dst_2", "dst_9"]);
});

it("adds those that it was sent to while the choice was lost, whatever they have been set to since", () => {
  const { outcome, tasks } = planFanout(world.makeEvent(), destinations, 5, null, [
    "dst_2",
    "dst_4",
  ]);
  expect(outcome).toMatchObject({ destinationIds: ["dst_1", "dst_4", "dst_2"] });
  expect(tasks.map((task) => task.destinationId)).toEqual(["dst_1", "dst_4", "dst_2"]);
});

it("makes first tries due at once, also where the clock is behind the one that received the event", () => {
  const event = world.makeEvent();
  const behindMs = event.receivedAtMs - 10_000;
  const dueAt = (nowMs: number) =>
    planFanout(event, destinations, nowMs).tasks.map(({ dueAtMs }) => dueAtMs);
  expect(dueAt(behindMs)).toEqual([behindMs, behindMs]);
  expect(dueAt(event.receivedAtMs + 5)).toEqual([event.receivedAtMs, event.receivedAtMs]);
});
