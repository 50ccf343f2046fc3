import { describe, expect, it } from "vitest";
import { answer, SimWorld } from "../../support/sim-world.ts";
import type { Behaviour } from "../../support/sim-world.ts";

/** As `answer`, and the sender knows how long it took. */
function answerAfter(afterMs: number, status = 200): Behaviour {
  return () => ({ afterMs, reply: { ...answer(status), latencyMs: afterMs } });
}

const HANGS: Behaviour = () => ({
  afterMs: 15_000,
  reply: { kind: "timeout", reason: "no answer within 15 s", latencyMs: 15_000 },
});

/** Ingests at so many a second. */
async function pour(world: SimWorld, count: number, perSecond: number): Promise<void> {
  const each = Math.max(1, Math.round(perSecond / 100));
  for (let made = 0; made < count; made += each) {
    for (let one = 0; one < Math.min(each, count - made); one += 1) world.ingest();
    await world.clock.advance((each * 1_000) / perSecond);
  }
}

/** Until all have ended, in seconds. */
async function secondsToDrain(world: SimWorld, count: number): Promise<number> {
  const fromMs = world.clock.now();
  await world.clock.until(() => world.seen.length >= count, 600_000, 500);
  await world.clock.until(() => world.ended().size === count, 600_000, 500);
  return (world.clock.now() - fromMs) / 1_000;
}

describe("a backlog", () => {
  it("regression: at a receiver that is new to its owner drains at nine tenths of what 64 tries at a time can: it came back at the pace of the first four, a third", async () => {
    const world = new SimWorld();
    world.configure("dst_1");
    world.behave("dst_1", answerAfter(200));
    await world.start();
    await pour(world, 4_000, 10_000);
    const idealSeconds = (4_000 * 0.2) / 64;
    expect(await secondsToDrain(world, 4_000)).toBeLessThan(idealSeconds / 0.88);
    expect(world.deferrals.length).toBeLessThan(2 * 4_000);
  });

  it.each([
    ["failed", answerAfter(50, 500)],
    ["hung", HANGS],
  ] as const)(
    "regression: at a receiver that %s for ten minutes drains within half a minute of the first try that succeeds: it took another two to four minutes",
    async (_, behaviour) => {
      const world = new SimWorld();
      world.configure("dst_1", { retryMaxAttempts: 10 });
      world.behave("dst_1", behaviour);
      await world.start();
      await pour(world, 3_000, 5);
      world.behave("dst_1", answerAfter(200));
      const before = world.seen.length;
      await world.clock.until(() => world.seen.length > before + 5, 300_000, 50);
      expect(await secondsToDrain(world, 3_000)).toBeLessThan(33);
      expect(world.deferrals.length).toBeLessThan(6 * 3_000);
    },
  );

  it("regression: of half a minute of 503 drains within another half: it came back at 40 a second for two minutes", async () => {
    const world = new SimWorld();
    world.configure("dst_1", { retryMaxAttempts: 10 });
    world.behave("dst_1", answerAfter(50, 503));
    await world.start();
    await pour(world, 5_000, 160);
    world.behave("dst_1", answerAfter(50));
    expect(await secondsToDrain(world, 5_000)).toBeLessThan(40);
    expect(world.deferrals.length).toBeLessThan(4 * 5_000);
  });

  it("that comes while a probe is underway goes on soon after it, not when it would have timed out", async () => {
    const world = new SimWorld();
    world.configure("dst_1", { retryMaxAttempts: 0 });
    world.behave("dst_1", answerAfter(50, 500));
    await world.start();
    await pour(world, 300, 5);
    await world.clock.until(() => world.ended().size === 300, 900_000, 1_000);
    await world.clock.advance(600_000);
    world.behave("dst_1", answerAfter(500));
    const before = world.ended().size;
    for (let one = 0; one < 20; one += 1) world.ingest();
    await world.clock.advance(6_000);
    expect(world.ended().size).toBe(before + 20);
  });
});
