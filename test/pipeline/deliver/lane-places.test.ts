import { describe, expect, it } from "vitest";
import { firstTry } from "../../../src/domain/delivery-task.ts";
import { IntakeBudget } from "../../../src/pipeline/deliver/bounds/intake-budget.ts";
import { SendGate } from "../../../src/pipeline/deliver/bounds/send-gate.ts";
import { DEFAULT_DELIVERY_OPTIONS } from "../../../src/pipeline/deliver/delivery-options.ts";
import { LanePlaces } from "../../../src/pipeline/deliver/lane/lane-places.ts";
import { SimWorld } from "../../support/sim-world.ts";

const URL = "https://dst-1.example.com/hook";
const LANE_BYTES = 1_000;
/** A body of more than 100 bytes is large. */
const BUDGET_BYTES = 25_600;
const TIGHT = BUDGET_BYTES;

const world = new SimWorld();
const bodyOf = (bytes: number) => Buffer.alloc(bytes);

function makeShared() {
  const gate = new SendGate({ max: 100, maxPerReceiver: 100 }, () => undefined);
  const budget = new IntakeBudget(BUDGET_BYTES);
  const options = {
    ...DEFAULT_DELIVERY_OPTIONS,
    ownerId: "a",
    version: "0.0.0",
    laneBytes: LANE_BYTES,
  };
  return { gate, budget, options };
}

function makePlaces(proven: boolean, shared = makeShared()) {
  let pumped = 0;
  const pump = (): void => {
    pumped += 1;
  };
  const places = new LanePlaces({ inFlight: 0, proven, pump }, shared);
  return {
    ...shared,
    places,
    pumped: () => pumped,
    enter: (bytes: number) =>
      places.tryEnter(
        firstTry(world.makeEvent({ body: bodyOf(bytes) }), "dst_1", world.clock.now()),
        URL,
      ),
  };
}

describe("what may wait in a lane", () => {
  it.each([
    { queued: 0, more: 5_000, isFull: false },
    { queued: 900, more: 100, isFull: false },
    { queued: 900, more: 101, isFull: true },
  ])("is bounded in bytes, but for a single body: %j", ({ queued, more, isFull }) => {
    const { places } = makePlaces(true);
    expect(places.isFull(queued, bodyOf(more))).toBe(isFull);
  });

  it.each([
    [false, true],
    [true, false],
  ])("is less by what is in flight unless its latest try succeeded (%j)", (proven, isFull) => {
    const { places, enter } = makePlaces(proven);
    const leave = enter(300)!;
    expect(places.isFull(600, bodyOf(200))).toBe(isFull);
    leave();
    expect(places.isFull(600, bodyOf(200))).toBe(false);
  });

  it.each([
    { queued: 1, more: 200, isFull: true, name: "a large body behind others is put off" },
    { queued: 0, more: 200, isFull: false, name: "a large body that can be sent at once is taken" },
    { queued: 1, more: 100, isFull: false, name: "a small body is taken" },
  ])("while the budget is tight: $name", ({ queued, more, isFull }) => {
    const unproven = makePlaces(false);
    expect(unproven.places.isFull(queued, bodyOf(more))).toBe(false);
    unproven.budget.add(TIGHT);
    unproven.budget.add(TIGHT);
    expect(unproven.places.isFull(queued, bodyOf(more))).toBe(isFull);
    const proven = makePlaces(true, unproven);
    expect(proven.places.isFull(queued, bodyOf(more))).toBe(false);
  });

  it("while the budget is tight is no large body for which there is no room in flight", () => {
    const first = makePlaces(false);
    first.budget.add(TIGHT);
    first.budget.add(TIGHT);
    const other = makePlaces(false, first);
    const leave = other.enter(9_500)!;
    expect(first.places.isFull(0, bodyOf(200))).toBe(true);
    leave();
    expect(first.places.isFull(0, bodyOf(200))).toBe(false);
  });
});

describe("what may be in flight of a lane", () => {
  it("is half as many bytes as may wait, or a single body", () => {
    const { enter } = makePlaces(true);
    const leave = enter(5_000)!;
    expect(enter(1)).toBeNull();
    leave();
    const leaves = [enter(300), enter(200)];
    expect(leaves.every((one) => one !== null)).toBe(true);
    expect(enter(1)).toBeNull();
  });

  it("waits for bytes of the process, and is asked again when there are some", () => {
    const first = makePlaces(false);
    const other = makePlaces(false, first);
    const leave = other.enter(9_500)!;
    expect(first.enter(200)).toBeNull();
    expect(first.pumped()).toBe(0);
    leave();
    expect(first.pumped()).toBe(1);
  });

  it("waits for nothing any more once the lane is closed", () => {
    const first = makePlaces(false);
    const other = makePlaces(false, first);
    const leave = other.enter(9_500)!;
    expect(first.enter(200)).toBeNull();
    first.places.forget();
    leave();
    expect(first.pumped()).toBe(0);
  });
});
