import { describe, expect, it } from "vitest";
import { LanePace } from "../../../src/pipeline/deliver/lane/lane-pace.ts";

const answer = (latencyMs: number) => ({ latencyMs, isSuccess: true });
const timeout = { latencyMs: 15_000, isSuccess: false };

describe("lane pace", () => {
  it("is as many tries as are in flight in the time that one takes", () => {
    const pace = new LanePace();
    expect(pace.perSecond(1)).toBe(500);
    pace.onReply(answer(100), 4, 0);
    expect(pace.perSecond(4)).toBe(40);
  });

  it("hopes for the best of late, half as much every half minute", () => {
    const pace = new LanePace();
    pace.onReply(answer(10), 4, 0);
    pace.onReply(timeout, 1, 1_000);
    expect(pace.perSecond(1)).toBeLessThan(1);
    expect(pace.hopedPerSecond(1, 1_000)).toBeGreaterThan(350);
    expect(pace.hopedPerSecond(1, 31_000)).toBeCloseTo(pace.hopedPerSecond(1, 1_000) / 2, 5);
    expect(pace.hopedPerSecond(1, 600_000)).toBeLessThan(1);
  });

  it("hopes for a little where nothing is known but failures, and forgets that as well", () => {
    const pace = new LanePace();
    expect(pace.hopedPerSecond(4, 0)).toBe(500);
    pace.onReply(timeout, 1, 0);
    expect(pace.hopedPerSecond(1, 0)).toBe(200);
    pace.onReply(timeout, 1, 60_000);
    expect(pace.hopedPerSecond(1, 60_000)).toBeCloseTo(50, 5);
  });

  it("hopes for nothing more of a receiver that is well and slow: its backlog came back time and again", () => {
    const pace = new LanePace();
    pace.onReply(answer(14_000), 4, 0);
    expect(pace.hopedPerSecond(64, 0)).toBeLessThan(5);
  });
});
