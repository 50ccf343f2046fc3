import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { plainRetryDelayMs, retryDelayMs, scheduleLengthMs } from "../../src/domain/backoff.ts";
import { RETRY_BACKOFFS } from "../../src/domain/enums.ts";

const SIX_HOURS = 6 * 3_600_000;

describe("backoff", () => {
  it.each([
    ["exponential", [30_000, 90_000, 270_000, 810_000, 2_430_000]],
    ["linear", [30_000, 60_000, 90_000, 120_000, 150_000]],
    ["fixed", [30_000, 30_000, 30_000, 30_000, 30_000]],
  ] as const)("%s grows from the base as the contract says", (backoff, delays) => {
    expect(delays.map((_, index) => plainRetryDelayMs(backoff, index + 1, 30_000))).toEqual(delays);
  });

  it("stops growing at six hours", () => {
    expect(plainRetryDelayMs("exponential", 10, 30_000)).toBe(SIX_HOURS);
  });

  it("never shrinks from one retry to the next, and jitter stays within 20 %", () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...RETRY_BACKOFFS),
        fc.integer({ min: 1, max: 10 }),
        fc.integer({ min: 1, max: 3_600_000 }),
        fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }),
        (backoff, retry, baseMs, draw) => {
          const plain = plainRetryDelayMs(backoff, retry, baseMs);
          expect(plainRetryDelayMs(backoff, retry + 1, baseMs)).toBeGreaterThanOrEqual(plain);
          const delay = retryDelayMs({
            backoff,
            retry,
            baseMs,
            retryAfterMs: null,
            random: () => draw,
          });
          expect(delay).toBeGreaterThanOrEqual(Math.floor(plain * 0.8));
          expect(delay).toBeLessThanOrEqual(Math.min(SIX_HOURS, Math.ceil(plain * 1.2)));
        },
      ),
    );
  });

  it("is never earlier than what the receiver asked for, even beyond six hours", () => {
    const delay = retryDelayMs({
      backoff: "fixed",
      retry: 1,
      baseMs: 1_000,
      retryAfterMs: 20 * 3_600_000,
      random: () => 0,
    });
    expect(delay).toBe(20 * 3_600_000);
  });

  it("reckons the whole schedule with every try timing out", () => {
    expect(
      scheduleLengthMs({ backoff: "fixed", retryMaxAttempts: 2, baseMs: 1_000, timeoutMs: 500 }),
    ).toBe(500 + 2 * (1_200 + 500));
  });

  it("reckons a delay with what the receiver asks for where that is longer", () => {
    const schedule = { backoff: "linear", retryMaxAttempts: 2, baseMs: 1_000 } as const;
    expect(scheduleLengthMs({ ...schedule, timeoutMs: 500, retryAfterMs: 2_000 })).toBe(
      500 + (2_000 + 500) + (2_400 + 500),
    );
  });
});
