import { expect, test } from "vitest";
import {
  CurrentCoordinator,
  type Coordinator,
} from "../../../src/adapters/kafka/consume/current-coordinator.ts";
import { closedError, protocolError, unreachableError } from "../../support/group-fake.ts";

const FOUND_WITHIN_MS = 30_000;
const refusal = () => protocolError("NOT_COORDINATOR_FOR_GROUP");
const always = () => true;

/** Returns what asks coordinators that are known by name, of which each look-up finds the next one. */
function makeCurrent(find: (lookUps: number) => string) {
  const named = (name: string) => ({ name }) as unknown as Coordinator;
  const clock = { nowMs: 0 };
  const told: Error[] = [];
  const asked: string[] = [];
  let lookUps = 0;
  const current = new CurrentCoordinator(named("first"), {
    find: async () => {
      lookUps += 1;
      return named(find(lookUps));
    },
    monotonic: () => clock.nowMs,
    onError: (error) => told.push(error),
  });
  const ask = (answer: (times: number) => string, isOfUse = always) =>
    current.ask(async (coordinator) => {
      asked.push((coordinator as unknown as { readonly name: string }).name);
      return answer(asked.length);
    }, isOfUse);
  return { ask, asked, told, clock };
}

function failingUntil(times: number, error: () => Error): (count: number) => string {
  return (count) => {
    if (count < times) throw error();
    return "answer";
  };
}

test("regression: the next coordinator is asked until it knows that it is: named a moment before, it refused the first heartbeat, and the group was joined anew", async () => {
  const { ask, asked, told } = makeCurrent(() => "second");
  await expect(ask(failingUntil(4, refusal))).resolves.toBe("answer");
  expect(asked).toEqual(["first", "second", "second", "second"]);
  await ask(() => "answer");
  expect(asked.at(-1)).toBe("second");
  expect(told).toEqual([]);
});

test("the one that is found next may be gone as well", async () => {
  const { ask, asked } = makeCurrent((lookUps) => `number ${lookUps + 1}`);
  await ask(failingUntil(3, closedError));
  expect(asked).toEqual(["first", "number 2", "number 3"]);
});

test("regression: while none is found it is looked up again, which is told of: brokers that took ten seconds to choose one had the consumer crash", async () => {
  const error = unreachableError("b1");
  const { ask, asked, told } = makeCurrent((lookUps) => {
    if (lookUps < 3) throw error;
    return "second";
  });
  await ask(failingUntil(2, closedError));
  expect(asked).toEqual(["first", "second"]);
  expect(told).toEqual([error, error]);
});

test("after half a minute without one the failure is the caller's, which starts anew", async () => {
  const none = makeCurrent(() => {
    none.clock.nowMs += FOUND_WITHIN_MS / 2;
    throw unreachableError("b1");
  });
  await expect(none.ask(failingUntil(2, closedError))).rejects.toThrow("ECONNREFUSED");
  expect({ asked: none.asked, told: none.told.length }).toEqual({ asked: ["first"], told: 1 });

  const refusing = makeCurrent(() => {
    refusing.clock.nowMs += FOUND_WITHIN_MS / 2;
    return "second";
  });
  await expect(refusing.ask(failingUntil(9, refusal))).rejects.toThrow("coordinator");
  expect(refusing.asked).toEqual(["first", "second", "second"]);
});

test("no further one is asked once the answer is of no use", async () => {
  let isOfUse = true;
  const found = makeCurrent(() => {
    isOfUse = false;
    return "second";
  });
  await expect(found.ask(failingUntil(9, refusal), () => isOfUse)).rejects.toThrow("coordinator");
  expect(found.asked).toEqual(["first", "second"]);

  isOfUse = true;
  const none = makeCurrent(() => {
    isOfUse = false;
    throw unreachableError("b1");
  });
  await expect(none.ask(failingUntil(9, refusal), () => isOfUse)).rejects.toThrow("ECONNREFUSED");
  expect(none.told).toEqual([]);
});
