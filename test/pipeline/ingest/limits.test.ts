import { describe, expect, test } from "vitest";
import { makeAdmission } from "../../../src/pipeline/ingest/admission.ts";
import { makeRateLimiter } from "../../../src/pipeline/ingest/rate-limiter.ts";

describe("rate limit", () => {
  test("lets a second's worth through at once and then one per interval", () => {
    const limiter = makeRateLimiter(4);
    expect([0, 0, 0, 0, 0].map((at) => limiter.take("a", at))).toEqual([0, 0, 0, 0, 1]);
    expect(limiter.take("a", 250)).toBe(0);
    expect(limiter.take("a", 250)).toBe(1);
    expect(limiter.take("b", 250)).toBe(0);
  });

  test("regression: a request that waited, for its endpoint to be looked up, brings its earlier time: the same second was filled up once more with each, and nothing was limited", () => {
    const limiter = makeRateLimiter(10);
    const passed = (nowMs: number) => (limiter.take("a", nowMs) === 0 ? 1 : 0);
    let count = 0;
    for (let nowMs = 1_000; nowMs < 2_000; nowMs += 2)
      count += passed(nowMs) + passed(nowMs - 1_000);
    expect(count).toBe(19);
  });

  test("one that brings an earlier time is counted like any other", () => {
    const limiter = makeRateLimiter(4);
    expect([1_000, 0, 500, 0, 1_000].map((at) => limiter.take("a", at))).toEqual([0, 0, 0, 0, 1]);
  });

  test("off, and below one per second", () => {
    const off = makeRateLimiter(0);
    expect(Array.from({ length: 100 }, () => off.take("a", 0)).every((wait) => wait === 0)).toBe(
      true,
    );
    const slow = makeRateLimiter(0.1);
    expect([slow.take("a", 0), slow.take("a", 0), slow.take("a", 5_000)]).toEqual([0, 10, 5]);
  });

  test("forgets idle keys, never one that is still owed a wait", () => {
    const limiter = makeRateLimiter(1);
    limiter.take("busy", 0);
    for (let key = 0; key < 25_000; key += 1) limiter.take(`k${key}`, 0);
    expect(limiter.take("busy", 0)).toBe(1);
  });

  test("nor one that has used a part of its second", () => {
    const limiter = makeRateLimiter(4);
    for (let used = 0; used < 3; used += 1) limiter.take("busy", 0);
    for (let key = 0; key < 25_000; key += 1) limiter.take(`k${key}`, 0);
    expect([limiter.take("busy", 0), limiter.take("busy", 0)]).toEqual([0, 1]);
  });
});

describe("admission", () => {
  test("one alone gets half, a second one half of the rest", () => {
    const admission = makeAdmission({ maxRequests: 100, maxBytes: 1_000 });
    const enterAll = (key: string): number => {
      let entered = 0;
      while (admission.enter(key) !== null) entered += 1;
      return entered;
    };
    expect(enterAll("a")).toBe(50);
    expect(enterAll("b")).toBe(25);
    expect(enterAll("a")).toBe(0);
  });

  test("bytes are bounded the same way and given back", () => {
    const admission = makeAdmission({ maxRequests: 100, maxBytes: 1_000 });
    const a = admission.enter("a");
    const b = admission.enter("b");
    if (a === null || b === null) throw new Error("there is room");
    expect([admission.grow(a, 500), admission.grow(a, 100), admission.grow(b, 250)]).toEqual([
      true,
      false,
      true,
    ]);
    admission.leave("a", a, 500);
    admission.leave("b", b, 250);
    expect(admission.inFlight).toEqual({ requests: 0, bytes: 0 });
  });

  test("an endpoint gets its whole part again and again: what was given back is not counted", () => {
    const admission = makeAdmission({ maxRequests: 100, maxBytes: 1_000 });
    for (let round = 0; round < 30; round += 1) {
      const shares = Array.from({ length: 10 }, () => admission.enter("a"));
      for (const share of shares) {
        if (share === null) throw new Error(`no room in round ${round}`);
        expect(admission.grow(share, 50)).toBe(true);
      }
      for (const share of shares) if (share !== null) admission.leave("a", share, 50);
    }
    expect(admission.inFlight).toEqual({ requests: 0, bytes: 0 });
  });

  test("with very many endpoints, one that still has requests in flight keeps its part", () => {
    const admission = makeAdmission({ maxRequests: 30_000, maxBytes: 1_000 });
    for (let key = 0; key <= 10_000; key += 1) admission.enter(`k${key}`);
    const share = admission.enter("a");
    if (share === null) throw new Error("there is room");
    expect(admission.grow(share, 400)).toBe(true);
    admission.enter("a");
    admission.leave("a", share, 0);
    const again = admission.enter("a");
    if (again === null) throw new Error("there is room");
    expect([admission.grow(again, 201), admission.grow(again, 100)]).toEqual([false, true]);
  });
});
