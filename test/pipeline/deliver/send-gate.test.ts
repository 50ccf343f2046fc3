import { expect, it } from "vitest";
import { SendGate } from "../../../src/pipeline/deliver/bounds/send-gate.ts";

const HERE = "https://here.example.com/";
const THERE = "https://there.example.com/";

function makeGate(max: number, maxPerReceiver = max) {
  const gate = new SendGate({ max, maxPerReceiver }, () => undefined);
  return {
    gate,
    makeLane(proven: boolean) {
      const lane = {
        inFlight: 0,
        proven,
        pumped: 0,
        pump: () => {
          lane.pumped += 1;
        },
        enter: (receiverUrl = HERE) => gate.tryEnter(lane, receiverUrl),
      };
      return lane;
    },
  };
}

it("a lane that found no place is pumped when one is given back", () => {
  const { makeLane } = makeGate(1);
  const [first, second] = [makeLane(true), makeLane(true)];
  const leave = first.enter()!;
  expect(second.enter(THERE)).toBeNull();
  leave();
  expect(second.pumped).toBe(1);
  expect(second.enter(THERE)).not.toBeNull();
});

it("a lane that found no place at its receiver is pumped when one is given back there, not elsewhere", () => {
  const { makeLane } = makeGate(10, 1);
  const [first, second, other] = [makeLane(true), makeLane(true), makeLane(true)];
  const leave = first.enter()!;
  const leaveThere = other.enter(THERE)!;
  expect(second.enter()).toBeNull();
  leaveThere();
  expect(second.pumped).toBe(0);
  leave();
  expect(second.pumped).toBe(1);
});

it("a lane that is forgotten is pumped no more", () => {
  const { gate, makeLane } = makeGate(1);
  const [first, second] = [makeLane(true), makeLane(true)];
  const leave = first.enter()!;
  expect(second.enter()).toBeNull();
  gate.forget(second);
  leave();
  expect(second.pumped).toBe(0);
});

it("unproven lanes have half of the places together, and more than one each only while a quarter is not taken", () => {
  const { makeLane } = makeGate(16);
  const lane = makeLane(false);
  const entered = Array.from({ length: 5 }, () => lane.enter());
  expect(entered.map((leave) => leave !== null)).toEqual([true, true, true, true, false]);
  const others = Array.from({ length: 5 }, () => makeLane(false).enter());
  expect(others.map((leave) => leave !== null)).toEqual([true, true, true, true, false]);
  expect(makeLane(true).enter()).not.toBeNull();
});

it("a place that an unproven lane took is given back to the unproven ones, also if the lane has proved itself meanwhile", () => {
  const { makeLane } = makeGate(2);
  const lane = makeLane(false);
  const leave = lane.enter()!;
  expect(makeLane(false).enter()).toBeNull();
  lane.proven = true;
  leave();
  expect(makeLane(false).enter()).not.toBeNull();
});

it("under pressure a busy lane gets its share of the places, and one that has none is let in", () => {
  const { makeLane } = makeGate(8);
  const [busy, other] = [makeLane(true), makeLane(true)];
  for (let count = 0; count < 3; count += 1) expect(busy.enter()).not.toBeNull();
  const leave = other.enter()!;
  // Two lanes share eight places.
  expect(busy.enter()).not.toBeNull();
  expect(busy.enter()).toBeNull();
  expect(makeLane(true).enter()).not.toBeNull();
  expect(busy.pumped).toBe(0);
  leave();
  // Those that wait for more count twice, so there are three lanes still.
  expect(busy.enter()).toBeNull();
});
