import fc from "fast-check";
import { expect, it } from "vitest";
import { DELAY_TIERS, topicForDelay, WAIT_IN_MEMORY_MS } from "../../src/domain/delay-tier.ts";

it("a task waits in the largest tier that fits and is never late by hopping down", () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 24 * 3_600_000 }), (delayMs) => {
      let remaining = delayMs;
      for (;;) {
        const topic = topicForDelay(remaining, 1_000);
        if (topic === "tasks") break;
        remaining -= DELAY_TIERS.find((tier) => tier.topic === topic)!.delayMs;
        expect(remaining).toBeGreaterThanOrEqual(0);
      }
      expect(remaining).toBeLessThan(WAIT_IN_MEMORY_MS);
    }),
  );
});

it.each(DELAY_TIERS.slice(2).map(({ topic, delayMs }, at) => [topic, delayMs, at] as const))(
  "%s is the tier from %i ms on, and not before: in smaller ones a task would be written again and again",
  (topic, delayMs, at) => {
    expect(topicForDelay(delayMs, 1_000)).toBe(topic);
    expect(topicForDelay(delayMs - 1, 1_000)).toBe(DELAY_TIERS[at + 1]!.topic);
  },
);

it("a large task is given back at most a quarter of a second before it is due, or within the second after", () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 24 * 3_600_000 }), (delayMs) => {
      let remaining = delayMs;
      for (;;) {
        const topic = topicForDelay(remaining, 1_000_000);
        if (topic === "tasks") break;
        remaining -= DELAY_TIERS.find((tier) => tier.topic === topic)!.delayMs;
      }
      expect(remaining).toBeLessThan(250);
      expect(remaining).toBeGreaterThan(-1_000);
    }),
  );
});
