import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { rateWindowMs, SlidingWindow, tokenReturnMs } from "../../src/domain/rate-limit.ts";

describe("sliding window", () => {
  it.each([
    ["second", 1_000, 1_050],
    ["minute", 60_000, 61_000],
    ["hour", 3_600_000, 3_601_000],
    ["day", 86_400_000, 86_401_000],
  ] as const)("a token of a %s comes back 5 %% or a second later", (window, span, back) => {
    expect(rateWindowMs(window)).toBe(span);
    expect(tokenReturnMs(window)).toBe(back);
  });

  it("claims slots so that no window of its span holds more than the maximum", () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 1_500 }),
        fc.array(fc.integer({ min: 0, max: 700 }), { minLength: 1, maxLength: 300 }),
        (max, gaps) => {
          const window = new SlidingWindow(1_000, max);
          let nowMs = 1_000_000;
          const slots = gaps.map((gap) => {
            nowMs += gap;
            return window.claim(nowMs);
          });
          for (let at = max; at < slots.length; at += 1)
            expect(slots[at]! - slots[at - max]!).toBeGreaterThanOrEqual(1_000);
        },
      ),
    );
  });

  it("hands out a backlog of slots at the full rate, also for a maximum too large to remember singly", () => {
    const window = new SlidingWindow(1_000, 2_000);
    let last = 0;
    for (let count = 0; count < 20_000; count += 1) last = window.claim(0);
    expect(last).toBe(9_000);
    expect(window.starts(last).length).toBeLessThanOrEqual(501);
  });

  it("counts starts that are known from elsewhere", () => {
    const window = new SlidingWindow(1_000, 3);
    window.add(0, 2);
    expect(window.earliest(10)).toBe(10);
    expect(window.earliest(10, 1, 1)).toBe(1_000);
    expect(window.earliest(10, 4)).toBe(Number.POSITIVE_INFINITY);
    expect(window.used(999)).toBe(2);
    expect(window.used(1_000)).toBe(0);
  });
});
