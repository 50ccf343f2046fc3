import { expect, test } from "vitest";
import { Slots } from "../../src/domain/slots.ts";
import { seededRandom } from "../support/sim-clock.ts";

test("slots keep each value until it is taken, and are given again", () => {
  const random = seededRandom(2);
  const slots = new Slots<string>();
  const model = new Map<number, string>();
  for (let step = 0; step < 5_000; step += 1) {
    if (random() < 0.5 || model.size === 0) {
      const slot = slots.add(`value ${step}`);
      expect(model.has(slot)).toBe(false);
      model.set(slot, `value ${step}`);
    } else {
      const taken = [...model.keys()][Math.floor(random() * model.size)]!;
      expect(slots.get(taken)).toBe(model.get(taken));
      expect(slots.take(taken)).toBe(model.get(taken));
      model.delete(taken);
    }
    if (step % 100 === 0) expect([...slots].toSorted()).toEqual([...model.values()].toSorted());
  }
  expect(Math.max(...model.keys())).toBeLessThan(500);
});
