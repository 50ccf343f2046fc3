import { describe, expect, it } from "vitest";
import { seededRandom } from "../../support/sim-clock.ts";
import { answer, SimWorld } from "../../support/sim-world.ts";
import type { Behaviour } from "../../support/sim-world.ts";

/** Answers after this long, as the sender's latency shows. */
function answerAfter(afterMs: number, status = 200): Behaviour {
  return () => ({ afterMs, reply: { ...answer(status), latencyMs: afterMs } });
}

const HANGS: Behaviour = () => ({
  afterMs: 15_000,
  reply: { kind: "timeout", reason: "no answer within 15 s", latencyMs: 15_000 },
});

/** Fails this share of all tries, however few are in flight. */
function failAtRandom(share: number, afterMs: number): Behaviour {
  const random = seededRandom(7);
  return () => {
    const status = random() < share ? 500 : 200;
    return { afterMs, reply: { ...answer(status), latencyMs: afterMs } };
  };
}

/** Fails tries that come while more than `most` are in flight. */
function failAbove(world: SimWorld, most: number, afterMs: number): Behaviour {
  let inFlight = 0;
  return () => {
    inFlight += 1;
    world.clock.schedule(afterMs, () => (inFlight -= 1));
    const status = inFlight > most ? 503 : 200;
    return { afterMs, reply: { ...answer(status), latencyMs: afterMs } };
  };
}

/** Offers a receiver more than it can take. @returns tries a second, and the share that failed */
async function underLoad(world: SimWorld, perSecond: number, seconds: number) {
  await world.start();
  await pour(world, perSecond * seconds, perSecond);
  const attempts = world.attempts();
  const failed = attempts.filter(({ status }) => status !== "delivered").length;
  return { perSecond: attempts.length / seconds, failed: failed / attempts.length };
}

/** Ingests `count` events, `perSecond` a second. */
async function pour(world: SimWorld, count: number, perSecond: number): Promise<void> {
  const each = Math.max(1, Math.round(perSecond / 100));
  for (let made = 0; made < count; made += each) {
    for (let one = 0; one < Math.min(each, count - made); one += 1) world.ingest();
    await world.clock.advance((each * 1_000) / perSecond);
  }
}

/** Returns how many seconds pass until all have ended. */
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

describe("a receiver that fails some of its tries", () => {
  it.each([
    [0.05, 100, 640],
    [0.1, 200, 320],
    [0.3, 200, 320],
  ])(
    "regression: %f of them at random, at answers of %i ms, is sent at four fifths of its pace or more: it was a quarter at a tenth",
    async (share, afterMs, idealPerSecond) => {
      const world = new SimWorld();
      world.configure("dst_1", { retryMaxAttempts: 10 });
      world.behave("dst_1", failAtRandom(share, afterMs));
      const { perSecond } = await underLoad(world, idealPerSecond, 20);
      expect(perSecond).toBeGreaterThan(idealPerSecond * 0.8);
    },
  );

  it.each([8, 30])(
    "where more than %i are in flight has nearly as many as it can take, and few fail: it was two thirds of that, and a third failed",
    async (most) => {
      const world = new SimWorld();
      world.configure("dst_1", { retryMaxAttempts: 10 });
      world.behave("dst_1", failAbove(world, most, 50));
      const idealPerSecond = most * 20;
      const { perSecond, failed } = await underLoad(world, idealPerSecond * 1.2, 20);
      expect(failed).toBeLessThan(0.1);
      expect(perSecond).toBeGreaterThan(idealPerSecond * 0.85);
    },
  );

  it("that was overloaded and has got more room is sent all that it can take within half a minute", async () => {
    const world = new SimWorld();
    world.configure("dst_1", { retryMaxAttempts: 10 });
    world.behave("dst_1", failAbove(world, 8, 200));
    await underLoad(world, 60, 20);
    world.behave("dst_1", answerAfter(200));
    await pour(world, 8_400, 280);
    const before = world.seen.length;
    await pour(world, 1_400, 280);
    expect(world.seen.length - before).toBeGreaterThan(1_250);
  });
});
