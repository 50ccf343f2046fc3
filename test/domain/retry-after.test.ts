import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { parseRetryAfterMs } from "../../src/domain/retry-after.ts";
import { cpuSecondsOf } from "../support/cpu-seconds.ts";

const NOW = Date.UTC(2026, 10, 6, 8, 49, 0);
const DAY = 24 * 3_600_000;

const retryAfterMs = (retryAfter: string | null, date: string | null = null) =>
  parseRetryAfterMs({ retryAfter, date }, NOW);

describe("Retry-After", () => {
  it.each([
    ["120", 120_000],
    [" 7 ", 7_000],
    ["86400", DAY],
    ["999999", DAY],
    ["999999999999999", DAY],
    ["00000000000000000060", 60_000],
    ["Fri, 06 Nov 2026 08:49:37 GMT", 37_000],
    ["Friday, 06-Nov-26 08:49:37 GMT", 37_000],
    ["Fri Nov  6 08:49:37 2026", 37_000],
    ["\t7\t", 7_000],
    ["Sun, 06 Nov 2044 08:49:37 GMT", DAY],
    ["Friday, 06-Nov-60 08:49:37 GMT", DAY],
    ["Friday, 06-Nov-76 08:49:37 GMT", DAY],
    ["Fri, 06 Nov 2026 08:49:60 GMT", 60_000],
    ["Fri, 06 Nov 2026 23:59:59 GMT", 54_659_000],
  ])("%j asks to wait", (header, waitMs) => {
    expect(retryAfterMs(header)).toBe(waitMs);
  });

  it.each([
    null,
    "",
    "0",
    "-5",
    "1.5",
    "1e3",
    "0x10",
    "soon",
    "120 seconds",
    "120, 240",
    "2026-11-06T08:49:37Z",
    "Fri, 06 Nov 2026 08:48:00 GMT",
    "Fri, 99 Nov 2026 08:49:37 GMT",
    "Fri, 06 Foo 2026 08:49:37 GMT",
    "Infinity",
    "Tue, 31 Nov 2026 12:00:10 GMT",
    "Sun, 30 Feb 2027 12:00:10 GMT",
    "Fri, 06 Nov 2026 24:49:37 GMT",
    "Fri, 06 Nov 2026 09:60:37 GMT",
    "Fri, 06 Nov 2026 08:49:61 GMT",
    "Friday, 06-Nov-77 08:49:37 GMT",
    "\u00A07",
    "\u30007",
    "\uFEFF7",
  ])("%j is ignored", (header) => {
    expect(retryAfterMs(header)).toBeNull();
  });

  it.each([16, 400])("of %i digits asks to wait as long as we ever do: it is no junk", (digits) => {
    expect(retryAfterMs("9".repeat(digits))).toBe(DAY);
  });

  it("regression: of 15,900 blanks within is junk at once: each such answer held the process for two seconds", async () => {
    const seconds = await cpuSecondsOf(() => {
      for (let round = 0; round < 20; round += 1)
        expect(retryAfterMs(`1<${" ".repeat(15_900)}>1`)).toBeNull();
    });
    expect(seconds).toBeLessThan(3);
  });

  it.each([
    ["an hour behind", "Fri, 06 Nov 2026 07:49:00 GMT", "Fri, 06 Nov 2026 07:50:00 GMT", 60_000],
    ["an hour ahead", "Fri, 06 Nov 2026 09:49:00 GMT", "Friday, 06-Nov-26 09:50:00 GMT", 60_000],
    ["an hour ahead", "Fri Nov  6 09:49:00 2026", "Fri Nov  6 09:48:00 2026", null],
    ["not told", "soon", "Fri, 06 Nov 2026 08:50:00 GMT", 60_000],
    ["not told", null, "Fri, 06 Nov 2026 07:50:00 GMT", null],
    ["an hour behind", "Fri, 06 Nov 2026 07:49:00 GMT", "90", 90_000],
  ])(
    "regression: a date counts from the answer's own, of a clock %s (%j): what came back too early, or hours late",
    (_, date, retryAfter, waitMs) => {
      expect(retryAfterMs(retryAfter, date)).toBe(waitMs);
    },
  );

  it("is bounded whatever the receiver says", () => {
    fc.assert(
      fc.property(fc.string(), (header) => {
        const waitMs = retryAfterMs(header);
        expect(waitMs === null || (waitMs > 0 && waitMs <= DAY)).toBe(true);
      }),
    );
  });
});
