import { describe, expect, it } from "vitest";
import type { RateLimitWindow } from "../../../src/domain/enums.ts";
import { DestinationRateLimiter } from "../../../src/pipeline/deliver/limits/destination-rate-limiter.ts";
import type { LimitRecord } from "../../../src/pipeline/deliver/limits/limits-codec.ts";

const NOW = 1_000_000;
const TIMEOUT_MS = 15_000;
/** A token comes back one minute and a second after its start. */
const BACK_MS = 61_000;
/** How long an unanswered request may remain unseen. */
const UNSEEN_MS = 6_000;

function limiterOf(
  max: number,
  window: RateLimitWindow = "minute",
  known: LimitRecord | null = null,
) {
  const limiter = new DestinationRateLimiter({ max, window, timeoutMs: TIMEOUT_MS }, known, NOW);
  limiter.grant({ untilMs: Infinity, count: 1_000 });
  return limiter;
}

describe("the token of a try", () => {
  it.each([
    ["that is answered at once comes back by when it was sent", 2_000, 2_500, 2_000],
    ["that is answered late may have been seen late, but for a second", 2_000, 6_000, 5_000],
    ["that is not answered may have been seen a tenth of the window later", 2_000, null, 7_000],
    ["that waited for its connection comes back by when it was sent", 12_000, 12_100, 12_000],
  ])("%s", (_, sentMs, answeredMs, countedMs) => {
    const limiter = limiterOf(1);
    expect(limiter.admit(NOW)).toEqual({ kind: "go" });
    const started = limiter.start(NOW);
    limiter.send(started, NOW + sentMs);
    if (answeredMs !== null) limiter.finish(started, NOW + answeredMs);
    const backMs = NOW + countedMs + BACK_MS;
    expect(limiter.admit(NOW + sentMs + UNSEEN_MS)).toEqual({ kind: "wait", untilMs: backMs });
    expect(limiter.admit(backMs - 1)).toEqual({ kind: "wait", untilMs: backMs });
    expect(limiter.admit(backMs)).toEqual({ kind: "go" });
  });

  it("that is underway is looked at again when it must have been seen", () => {
    const limiter = limiterOf(1);
    const started = limiter.start(NOW);
    expect(limiter.admit(NOW + 100)).toEqual({ kind: "wait", untilMs: NOW + 100 + UNSEEN_MS });
    limiter.send(started, NOW + 200);
    expect(limiter.admit(NOW + 300)).toEqual({ kind: "wait", untilMs: NOW + 200 + UNSEEN_MS });
  });
});

describe("what the next owner is told", () => {
  it("counts a try underway as seen as late as it may be", () => {
    const limiter = limiterOf(10);
    const started = limiter.start(NOW);
    const timesAt = (nowMs: number) =>
      limiter.snapshot("dst_1", nowMs).starts.map(([timeMs]) => timeMs - NOW);
    expect(timesAt(NOW + 5_000)).toEqual([TIMEOUT_MS + UNSEEN_MS]);
    expect(timesAt(NOW + 20_000)).toEqual([20_000 + UNSEEN_MS]);
    limiter.send(started, NOW + 12_000);
    expect(timesAt(NOW + 12_500)).toEqual([12_000 + UNSEEN_MS]);
  });

  it("in a block is a twentieth of the limit at most, or what is left, and what of it may still be underway", () => {
    const limiter = limiterOf(100);
    const blockAt = (nowMs: number) => limiter.nextBlock("dst_1", nowMs);
    expect(blockAt(NOW).grant).toEqual({ untilMs: NOW + 3_000, count: 5 });
    expect(blockAt(NOW).record.block).toEqual({ untilMs: NOW + 3_000 + TIMEOUT_MS, count: 5 });
    for (let count = 0; count < 90; count += 1) {
      const started = limiter.start(NOW);
      limiter.send(started, NOW);
      limiter.finish(started, NOW);
    }
    for (let count = 0; count < 7; count += 1) limiter.start(NOW);
    expect(blockAt(NOW).grant.count).toBe(3);
    expect(limiterOf(100, "day").nextBlock("dst_1", NOW).grant.untilMs).toBe(NOW + 60_000);
  });

  it("counts by the time of each start, in whatever order they are told", () => {
    const starts = [
      [NOW - 10_000, 5],
      [NOW - 50_000, 5],
    ] as const;
    const limiter = limiterOf(10, "minute", { destinationId: "dst_1", starts, block: null });
    expect(limiter.admit(NOW)).toEqual({ kind: "wait", untilMs: NOW - 50_000 + BACK_MS });
  });

  it("of a try that may be seen only later counts from now: whoever made it sends nothing any more", () => {
    const known = {
      destinationId: "dst_1",
      starts: [],
      block: { untilMs: NOW + 90_000, count: 10 },
    };
    const limiter = limiterOf(10, "minute", known);
    expect(limiter.admit(NOW)).toEqual({ kind: "wait", untilMs: NOW + BACK_MS });
  });
});

it("a block lets as many tries go as it stands for, until it is over", () => {
  const limiter = limiterOf(100);
  limiter.grant({ untilMs: NOW + 3_000, count: 2 });
  const admitted = (nowMs: number): string => limiter.admit(nowMs).kind;
  expect(admitted(NOW)).toBe("go");
  limiter.start(NOW);
  expect(admitted(NOW + 3_000)).toBe("reserve");
  expect(admitted(NOW + 2_999)).toBe("go");
  limiter.start(NOW + 2_999);
  expect(admitted(NOW + 2_999)).toBe("reserve");
});

it("a changed limit counts the tries underway, as they are sent and answered", () => {
  const limiter = limiterOf(10);
  const started = limiter.start(NOW);
  const next = limiter.successor(
    { max: 1, window: "minute", timeoutMs: TIMEOUT_MS },
    [],
    NOW + 100,
  );
  expect(next.plan(NOW + 100)).toBe(NOW + 100 + BACK_MS);
  limiter.send(started, NOW + 4_000);
  limiter.finish(started, NOW + 4_100);
  expect(next.admit(NOW + 5_000)).toEqual({ kind: "wait", untilMs: NOW + 4_000 + BACK_MS });
});
