import { describe, expect, it } from "vitest";
import { LanePace } from "../../../src/pipeline/deliver/lane-pace.ts";

describe("lane pace", () => {
  it("is as many tries as are in flight in the time that one takes", () => {
    const pace = new LanePace();
    expect(pace.perSecond(1)).toBe(500);
    pace.onReply(100, 4, 0);
    expect(pace.perSecond(4)).toBe(40);
  });

  it("hopes for the best of late, half as much every half minute", () => {
    const pace = new LanePace();
    pace.onReply(10, 4, 0);
    pace.onReply(15_000, 1, 1_000);
    expect(pace.perSecond(1)).toBeLessThan(1);
    expect(pace.hopedPerSecond(1, 1_000)).toBeGreaterThan(350);
    expect(pace.hopedPerSecond(1, 31_000)).toBeCloseTo(pace.hopedPerSecond(1, 1_000) / 2, 5);
    expect(pace.hopedPerSecond(1, 600_000)).toBeLessThan(1);
  });

  it("hopes for a little where nothing is known but failures, and forgets that as well", () => {
    const pace = new LanePace();
    expect(pace.hopedPerSecond(4, 0)).toBe(500);
    pace.onReply(15_000, 1, 0);
    expect(pace.hopedPerSecond(1, 0)).toBe(200);
    pace.onReply(15_000, 1, 60_000);
    expect(pace.hopedPerSecond(1, 60_000)).toBeCloseTo(50, 5);
  });
});
