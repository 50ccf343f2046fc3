import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { writeJson } from "../../src/api/write-json.ts";
import { countTurns } from "../support/count-turns.ts";

describe("the JSON of an answer", () => {
  it("is what JSON.stringify writes", async () => {
    await fc.assert(
      fc.asyncProperty(fc.jsonValue(), async (value) => {
        expect(await writeJson(value)).toBe(JSON.stringify(value));
      }),
    );
    const partial = { data: { none: undefined, nothing: null, list: [] } };
    expect(await writeJson(partial)).toBe(JSON.stringify(partial));
  });

  it("regression: with thousands of items is written in turns of the event loop: everything else waited for all of it", async () => {
    const items = Array.from({ length: 5_000 }, (_, index) => ({
      id: `atp_${index}`,
      status: null,
    }));
    for (const answer of [
      { data: items },
      { data: { id: "evt_1", attempts: items }, timestamp: "now" },
    ]) {
      using turns = countTurns();
      const json = await writeJson(answer);
      expect(turns.count).toBeGreaterThanOrEqual(9);
      expect(json).toBe(JSON.stringify(answer));
    }
  });

  it("regression: a long text is written in turns of the event loop: a payload of 10 MB made everything else wait for half a second", async () => {
    const pairs = "\u{1f600}".repeat(500_000);
    const halves = "\ud83d".repeat(500_000);
    for (const text of [
      "\u0001".repeat(1_000_000),
      pairs,
      `a${pairs}`,
      halves,
      `a${halves}${pairs}`,
    ]) {
      const answer = { data: { payload: text }, timestamp: "now" };
      using turns = countTurns();
      const json = await writeJson(answer);
      expect(turns.count).toBeGreaterThanOrEqual(7);
      // Not compared by `toBe`, which would print both.
      expect(Buffer.from(json as Uint8Array).toString() === JSON.stringify(answer)).toBe(true);
    }
  });

  it("is given as bytes when it is large, which are made in turns, too", async () => {
    const size = 20 * 1024 * 1024;
    const atOnce = JSON.stringify({ text: "é".repeat(size / 2) });
    using turns = countTurns();
    const json = await writeJson({ text: "é".repeat(size / 2) });
    expect(json).toBeInstanceOf(Uint8Array);
    expect(Buffer.from(atOnce).equals(json as Uint8Array)).toBe(true);
    // 160 pieces are written, and then 160 are encoded.
    expect(turns.count).toBeGreaterThanOrEqual(300);
  });
});
