import { describe, expect, test } from "vitest";
import { RingQueue } from "../../src/domain/ring-queue.ts";
import { seededRandom } from "../support/sim-clock.ts";

describe("a ring queue", () => {
  test("does what an array does, over 20,000 random steps", () => {
    const random = seededRandom(1);
    const queue = new RingQueue<number>();
    let model: number[] = [];
    let next = 0;
    for (let step = 0; step < 20_000; step += 1) {
      // Fills and empties in turn, so that it grows at every position of its head.
      const isFilling = Math.floor(step / 500) % 2 === 0;
      if (random() < (isFilling ? 0.7 : 0.3)) {
        queue.push(next);
        model.push(next++);
      } else expect(queue.shift()).toBe(model.shift());
      if (random() < 0.001) {
        queue.clear();
        model = [];
      }
      expect(queue.size).toBe(model.length);
      expect(queue.at(0)).toBe(model[0]);
      expect(queue.at(model.length - 1)).toBe(model.at(-1));
      expect(queue.at(model.length)).toBeUndefined();
      expect(queue.at(-1)).toBeUndefined();
      if (step % 100 === 0) expect([...queue]).toEqual(model);
    }
    expect(next).toBeGreaterThan(9_000);
  });

  test("finds the first that is far enough", () => {
    const queue = new RingQueue<number>();
    for (let value = 0; value < 40; value += 1) queue.push(value * 2);
    for (let gone = 0; gone < 10; gone += 1) queue.shift();
    expect(queue.lowerBound((value) => value >= 21)).toBe(1);
    expect(queue.lowerBound((value) => value >= 22)).toBe(1);
    expect(queue.lowerBound(() => true)).toBe(0);
    expect(queue.lowerBound(() => false)).toBe(30);
    expect(new RingQueue<number>().lowerBound(() => true)).toBe(0);
  });
});
