import { expect, test } from "vitest";
import { FormerFanouts } from "../../../src/adapters/clickhouse/former-fanouts.ts";

const NEWEST_MS = Date.UTC(2026, 0, 1);
const DAY_MS = 86_400_000;

function makeFormer(newestMs: number, upgradedMs = 0) {
  const world = { newestMs, upgradedMs, nowMs: 0, asked: 0, isDown: false };
  const former = new FormerFanouts({
    ask: async () => {
      world.asked += 1;
      if (world.isDown) throw new Error("down");
      return world;
    },
    monotonic: () => world.nowMs,
  });
  return { world, former };
}

test("only events up to ten minutes after the newest of the former table may have fan-outs there", async () => {
  const { former } = makeFormer(NEWEST_MS);
  expect(await former.mayHave(NEWEST_MS - DAY_MS)).toBe(true);
  expect(await former.mayHave(NEWEST_MS + 600_000)).toBe(true);
  expect(await former.mayHave(NEWEST_MS + 600_001)).toBe(false);
});

test("an empty table has none of any event", async () => {
  expect(await makeFormer(0).former.mayHave(1)).toBe(false);
});

test("for a day after an upgrade any event may have one there, also where it was quiet before: none was seen for a minute", async () => {
  for (const newestMs of [0, NEWEST_MS - 30 * DAY_MS]) {
    const { former } = makeFormer(newestMs, NEWEST_MS);
    expect(await former.mayHave(NEWEST_MS + DAY_MS)).toBe(true);
    expect(await former.mayHave(NEWEST_MS + DAY_MS + 1)).toBe(false);
  }
});

test("is asked once a minute, however many want to know at once", async () => {
  const { world, former } = makeFormer(0);
  await Promise.all([former.mayHave(NEWEST_MS), former.mayHave(NEWEST_MS)]);
  world.nowMs = 59_999;
  await former.mayHave(NEWEST_MS);
  expect(world.asked).toBe(1);
  world.newestMs = NEWEST_MS;
  world.nowMs = 60_000;
  expect(await former.mayHave(NEWEST_MS)).toBe(true);
  expect(world.asked).toBe(2);
});

test("a question that failed is asked again the next time", async () => {
  const { world, former } = makeFormer(NEWEST_MS);
  world.isDown = true;
  await expect(former.mayHave(NEWEST_MS)).rejects.toThrow("down");
  world.isDown = false;
  expect(await former.mayHave(NEWEST_MS)).toBe(true);
});
