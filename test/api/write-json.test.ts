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
});
