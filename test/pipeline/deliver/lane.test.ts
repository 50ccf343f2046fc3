import { describe, expect, it } from "vitest";
import { firstTry } from "../../../src/domain/delivery-task.ts";
import type { DeliveryTask } from "../../../src/domain/delivery-task.ts";
import type { DestinationConfig } from "../../../src/domain/destination.ts";
import type { Reply } from "../../../src/domain/outbound-request.ts";
import { UNLIMITED } from "../../../src/domain/rate-limit.ts";
import { IntakeBudget } from "../../../src/pipeline/deliver/bounds/intake-budget.ts";
import { SendGate } from "../../../src/pipeline/deliver/bounds/send-gate.ts";
import type { BreakerOptions } from "../../../src/pipeline/deliver/delivery-options.ts";
import { DEFAULT_DELIVERY_OPTIONS } from "../../../src/pipeline/deliver/delivery-options.ts";
import { Lane } from "../../../src/pipeline/deliver/lane/lane.ts";
import { DEADLINE_PASSED } from "../../../src/pipeline/deliver/try/dead-reasons.ts";
import type { LaneHost } from "../../../src/pipeline/deliver/lane/lane-host.ts";
import { answer, SimWorld } from "../../support/sim-world.ts";

const HOUR = 3_600_000;
const OPEN_MS = 10_000;
/** A circuit that opens at the first failure. */
const BREAKER = {
  failures: 1,
  minStreakMs: 0,
  minNewRunsMs: 0,
  openMs: OPEN_MS,
  maxOpenMs: OPEN_MS,
};

const TIMEOUT: Reply = { kind: "timeout", reason: "no answer", latencyMs: 15_000 };
const USUAL_BREAKER: BreakerOptions = DEFAULT_DELIVERY_OPTIONS.breaker;

/** Makes a lane by itself; tries stay in flight until they are answered. */
function makeLane({
  concurrency = 64,
  maxAtReceiver = 64,
  laneBytes = 1_000_000,
  breaker = USUAL_BREAKER,
} = {}) {
  const world = new SimWorld();
  const { clock } = world;
  const replies: ((reply: Reply) => void)[] = [];
  const started: DeliveryTask[] = [];
  const putOff: { readonly reason: string; readonly forMs: number }[] = [];
  const limited: DeliveryTask[] = [];
  const ended: string[] = [];
  const steady = { aheadMs: 0, stepMs: 0 };
  const state = {
    config: world.configure("dst_1"),
    isOwned: true,
    lookUpMs: 0,
    writeMs: 0,
    /** What has gone on elsewhere. */
    over: new Set<DeliveryTask>(),
    queued: 0,
  };
  const gate = new SendGate({ max: 1_000, maxPerReceiver: maxAtReceiver }, () => undefined);
  const host: LaneHost = {
    clock,
    options: {
      ...DEFAULT_DELIVERY_OPTIONS,
      ownerId: "a",
      version: "0.0.0",
      concurrency,
      laneBytes,
      breaker,
    },
    steadyNow: () => clock.monotonic() + (steady.aheadMs += steady.stepMs),
    // Long ago.
    assignedSteadyMs: 0,
    limits: { get: () => null, areComplete: true, late: async () => null },
    writeLimit: () => clock.sleep(state.writeMs).then(() => true),
    gate,
    budget: new IntakeBudget(100_000_000),
    mayStart: () => state.isOwned,
    endIfOver: (task) => state.over.has(task),
    lookUp() {
      const found = { kind: "found", value: state.config } as const;
      return state.lookUpMs === 0 ? found : clock.sleep(state.lookUpMs).then(() => found);
    },
    makeTry(task, _config, onSent) {
      onSent();
      started.push(task);
      return new Promise((resolve) => replies.push(resolve));
    },
    putOff: (_task, _config, reason, dueAtMs) =>
      putOff.push({ reason, forMs: dueAtMs - clock.now() }),
    recordLimited(task) {
      limited.push(task);
      return task;
    },
    hold: () => undefined,
    endDead: (_task, _config, reason) => ended.push(reason),
    onCircuit: () => undefined,
    onQueued: (change) => {
      state.queued += change;
    },
  };
  const lane = new Lane("dst_1", host);
  function offer(count = 1, changes: Partial<DeliveryTask> = {}): DeliveryTask[] {
    const tasks = Array.from({ length: count }, () => ({
      ...firstTry(world.makeEvent(), "dst_1", clock.now()),
      ...changes,
    }));
    for (const task of tasks) lane.offer(task, state.config);
    return tasks;
  }
  async function reply(nth: number, with_: Reply): Promise<void> {
    replies[nth]!(with_);
    await clock.advance(0);
  }
  function configure(changes: Partial<DestinationConfig>): void {
    state.config = world.configure("dst_1", changes);
  }
  return {
    lane,
    gate,
    clock,
    state,
    steady,
    started,
    putOff,
    limited,
    ended,
    offer,
    reply,
    configure,
  };
}

describe("what waits in a lane", () => {
  /** Makes a lane with a limit of 20 a minute, whose log takes that long to write a block. */
  function makeLimitedLane(writeMs: number) {
    const lane = makeLane();
    lane.configure({ rateLimitMax: 20, rateLimitWindow: "minute" });
    lane.state.writeMs = writeMs;
    return lane;
  }

  it("regression: is put off while the circuit is open even if that ends in the same moment: it was lost until the next owner", async () => {
    const { lane, state, steady, putOff, offer, reply } = makeLane({
      concurrency: 1,
      breaker: BREAKER,
    });
    offer(4);
    state.isOwned = false;
    await reply(0, answer(500));
    expect({ isOpen: lane.isCircuitOpen, queued: lane.queued }).toEqual({
      isOpen: true,
      queued: 3,
    });
    state.isOwned = true;
    steady.aheadMs = OPEN_MS - 2;
    // Time passes between two looks at it.
    steady.stepMs = 1;
    lane.pump();
    expect(lane.queued).toBe(0);
    expect(putOff.map(({ reason }) => reason)).toEqual(Array(3).fill("circuit_open"));
  });

  it("is not forgotten with its lane while ownership is in doubt, however long", async () => {
    const { lane, clock, state, started, offer } = makeLane();
    state.isOwned = false;
    offer();
    await clock.advance(120_000);
    expect(lane.isIdle).toBe(false);
    state.isOwned = true;
    await clock.advance(100);
    expect(started).toHaveLength(1);
  });

  it("is two seconds' worth at most: a thousand tasks at a receiver of unknown pace", () => {
    const { lane, putOff, offer } = makeLane({ concurrency: 1 });
    offer(1_000);
    expect(lane.hasRoom()).toBe(true);
    offer(101);
    expect(lane.queued).toBe(1_000);
    expect(putOff.map(({ reason }) => reason)).toEqual(Array(100).fill("lane_full"));
    expect(lane.hasRoom()).toBe(false);
  });

  it("waits two seconds at most, also behind what has waited before it", async () => {
    const { lane, clock, putOff, offer } = makeLane({ concurrency: 1 });
    offer(2);
    await clock.advance(100);
    offer();
    await clock.advance(2_000);
    expect(putOff.map(({ reason }) => reason)).toEqual(["lane_full", "lane_full"]);
    expect(lane.queued).toBe(0);
  });

  it("waits two seconds at most in all if it was not due at first", async () => {
    const { clock, putOff, started, offer, configure } = makeLane();
    configure({ rateLimitMax: 1, rateLimitWindow: "second" });
    offer(1, { dueAtMs: clock.now() + 1_900 });
    offer(3);
    expect(putOff).toHaveLength(1);
    await clock.advance(1_900);
    expect(started).toHaveLength(2);
    expect(putOff.map(({ reason }) => reason)).toEqual(["rate_limit", "rate_limit"]);
  });

  it("is no more than may be in flight once nothing has moved for two seconds and none has succeeded: more would wait for too long", async () => {
    const { lane, clock, putOff, offer, reply } = makeLane({ concurrency: 1 });
    offer();
    await clock.advance(2_100);
    offer(2);
    expect(lane.queued).toBe(1);
    expect(putOff).toEqual([{ reason: "lane_full", forMs: 4_250 }]);
    expect(lane.hasRoom()).toBe(false);
    await reply(0, answer(200));
    offer(2);
    expect(lane.queued).toBe(2);
    await clock.advance(1_900);
    expect(putOff).toHaveLength(1);
  });

  it("regression: is not put off for being early, however long there was nothing to do since a failure: retries came up to two seconds late, as if the receiver might hang", async () => {
    const { lane, clock, putOff, started, offer, reply } = makeLane({ concurrency: 1 });
    offer();
    await reply(0, answer(503));
    await clock.advance(5_000);
    offer(3, { tryNumber: 2, dueAtMs: clock.now() + 1_400 });
    expect(putOff).toEqual([]);
    expect(lane.queued).toBe(3);
    expect(lane.hasRoom()).toBe(true);
    await clock.advance(1_400);
    expect(started).toHaveLength(2);
    await reply(1, answer(200));
    await reply(2, answer(200));
    expect(started).toHaveLength(4);
  });

  it("starts as soon as a larger body before it, for which there is no room, has been put off", async () => {
    const { clock, started, putOff, offer } = makeLane({ laneBytes: 1_000 });
    const ofSize = (bytes: number) => ({
      event: new SimWorld().makeEvent({ body: Buffer.alloc(bytes) }),
    });
    offer(1, ofSize(400));
    offer(1, ofSize(300));
    await clock.advance(1_000);
    offer(1, ofSize(10));
    expect(started).toHaveLength(1);
    await clock.advance(1_000);
    expect(putOff.map(({ reason }) => reason)).toEqual(["lane_full"]);
    expect(started).toHaveLength(2);
  });

  it("starts at once when what is before it is over", async () => {
    const { lane, state, started, offer } = makeLane();
    state.isOwned = false;
    const [over, next] = offer(2);
    state.over.add(over!);
    state.isOwned = true;
    lane.pump();
    expect(started).toEqual([next]);
  });

  it("starts at once when the destination has been looked up", async () => {
    const { clock, state, started, offer } = makeLane();
    state.lookUpMs = 1;
    offer(4);
    await clock.advance(10);
    expect(started).toHaveLength(4);
  });

  it("is not put off while the destination is looked up, however long that takes", async () => {
    const { clock, state, started, putOff, offer } = makeLane();
    state.lookUpMs = 3_000;
    offer();
    await clock.advance(3_100);
    expect(started).toHaveLength(1);
    expect(putOff).toEqual([]);
  });

  it("regression: is not put off while a block of its limit is on its way to a slow log: none came back in time for its block, and nothing was made", async () => {
    const { clock, started, offer } = makeLimitedLane(2_500);
    offer();
    await clock.advance(2_510);
    expect(started).toHaveLength(1);
  });

  it("regression: gets blocks that hold for longer than a slow log takes to write them: each was over before it was durable", async () => {
    const { clock, started, offer } = makeLimitedLane(3_500);
    offer();
    await clock.advance(3_510);
    expect(started).toEqual([]);
    offer();
    await clock.advance(3_510);
    expect(started).toHaveLength(1);
  });

  it("is put off after twelve seconds if the log does not take the block of its limit: it may be down for long", async () => {
    const { clock, putOff, offer } = makeLimitedLane(60_000);
    offer();
    await clock.advance(11_900);
    expect(putOff).toEqual([]);
    await clock.advance(200);
    expect(putOff.map(({ reason }) => reason)).toEqual(["lane_full"]);
  });

  it("starts at once at a new receiver while the old one hangs", async () => {
    const { lane, started, offer, reply } = makeLane();
    offer(6);
    await reply(0, { kind: "timeout", reason: "no answer", latencyMs: 1 });
    expect(started).toHaveLength(4);
    lane.onDestinationChanged();
    expect(started).toHaveLength(5);
  });

  it("goes by the limit that the destination has by then", async () => {
    const { lane, clock, state, started, putOff, offer, configure } = makeLane();
    state.isOwned = false;
    offer(3);
    configure({ rateLimitMax: 1, rateLimitWindow: "minute" });
    state.isOwned = true;
    lane.pump();
    await clock.advance(100);
    expect(started).toHaveLength(1);
    expect(putOff.map(({ reason }) => reason)).toEqual(["rate_limit", "rate_limit"]);
  });

  it("goes by the latest limit also if it was not due yet when that was changed", async () => {
    const { clock, started, putOff, offer, configure } = makeLane();
    configure({ rateLimitMax: 1, rateLimitWindow: "day" });
    offer();
    await clock.advance(100);
    offer(1, { dueAtMs: clock.now() + 1_500 });
    configure({ rateLimitMax: null, rateLimitWindow: null });
    offer();
    await clock.advance(1_600);
    expect(started).toHaveLength(3);
    expect(putOff).toEqual([]);
  });

  it.each([
    [1, null],
    [0, UNLIMITED],
  ])("for its limit is recorded %i times if %j has put it off before", (times, limitedBy) => {
    const { lane, limited, offer, configure } = makeLane();
    configure({ rateLimitMax: 1, rateLimitWindow: "second" });
    offer();
    offer(1, { limitedBy });
    expect(lane.queued).toBe(1);
    expect(limited).toHaveLength(times);
  });

  it("is left alone once the lane is closed, also what was not due yet", async () => {
    const { lane, clock, state, started, putOff, offer, configure } = makeLane();
    configure({ rateLimitMax: 10, rateLimitWindow: "second" });
    offer(2, { dueAtMs: clock.now() + 1_500 });
    expect(state.queued).toBe(2);
    lane.close();
    lane.close();
    await clock.advance(10_000);
    expect({ started, putOff, queued: state.queued }).toEqual({
      started: [],
      putOff: [],
      queued: 0,
    });
  });

  it("is counted as long as it waits", async () => {
    const { lane, clock, state, offer, configure } = makeLane({ concurrency: 2 });
    configure({ rateLimitMax: 10, rateLimitWindow: "second" });
    const [, , over] = offer(5);
    offer(4, { dueAtMs: clock.now() + 1_500 });
    expect(lane.queued).toBe(7);
    expect(state.queued).toBe(7);
    state.over.add(over!);
    await clock.advance(1_900);
    expect(state.queued).toBe(lane.queued);
    await clock.advance(10_000);
    expect({ state: state.queued, lane: lane.queued }).toEqual({ state: 0, lane: 0 });
  });
});

describe("a lane whose tries are in vain puts off for up to three times as long as that has been so", () => {
  it("but time without anything to do does not count", async () => {
    const { clock, putOff, offer, reply } = makeLane({ concurrency: 1 });
    for (const [nth, status] of [200, 500].entries()) {
      offer();
      await reply(nth, answer(status));
      await clock.advance(60_000);
    }
    offer(2);
    await clock.advance(2_100);
    expect(putOff).toEqual([{ reason: "lane_full", forMs: 4_250 }]);
  });

  it("also while more keeps coming, up to the longest pause of a circuit, and for the time of a delay tier", async () => {
    const breaker = { ...USUAL_BREAKER, maxOpenMs: 100_000 };
    const { clock, putOff, offer } = makeLane({ concurrency: 1, breaker });
    for (let second = 0; second < 200; second += 1) {
      offer();
      await clock.advance(1_000);
    }
    const waits = putOff.map(({ forMs }) => Math.floor(forMs / 1_000));
    expect([...new Set(waits)]).toEqual([4, 15, 60]);
    expect(putOff.at(-1)!.forMs).toBeGreaterThan(60_000);
  });

  it("also if its queue is empty now and then", async () => {
    const { clock, putOff, offer } = makeLane({ concurrency: 1 });
    offer();
    for (let round = 0; round < 3; round += 1) {
      offer();
      await clock.advance(3_000);
    }
    expect(putOff.map(({ forMs }) => forMs)).toEqual([4_250, 15_250, 15_250]);
  });

  it("regression: also when tries have timed out: what waited at receivers that hang came back every few seconds after that, and took more than half of the process", async () => {
    const { clock, putOff, offer, reply } = makeLane({ concurrency: 1 });
    offer();
    await clock.advance(15_000);
    await reply(0, TIMEOUT);
    offer(2);
    await clock.advance(2_100);
    expect(putOff.at(-1)).toEqual({ reason: "lane_full", forMs: 15_250 });
    await clock.advance(12_900);
    await reply(1, TIMEOUT);
    offer(2);
    await clock.advance(2_100);
    expect(putOff.at(-1)).toEqual({ reason: "lane_full", forMs: 60_250 });
  });

  it("also if there was never nothing to do since the last success", async () => {
    const { clock, putOff, offer, reply } = makeLane({ concurrency: 2 });
    offer(2);
    await clock.advance(60_000);
    await reply(0, answer(200));
    offer();
    await clock.advance(15_000);
    await reply(1, TIMEOUT);
    offer(2);
    await clock.advance(2_100);
    expect(Math.round(putOff.at(-1)!.forMs / 1_000)).toBe(15);
  });

  it("and no longer once one has succeeded, or there may be another receiver", async () => {
    const { lane, clock, putOff, offer, reply } = makeLane({ concurrency: 1 });
    offer();
    await clock.advance(40_000);
    lane.onDestinationChanged();
    offer();
    await clock.advance(2_100);
    expect(putOff.at(-1)!.forMs).toBe(4_250);
    await reply(0, answer(500));
    offer();
    await clock.advance(40_000);
    await reply(1, answer(200));
    offer(2);
    await clock.advance(2_100);
    expect(putOff.at(-1)!.forMs).toBe(2_000);
  });
});

describe("a lane that lacks the places of others at its receiver puts off for as long as nothing has moved", () => {
  it("but idle time before does not count", async () => {
    const { gate, clock, state, putOff, offer, reply } = makeLane({ maxAtReceiver: 1 });
    offer();
    await reply(0, answer(200));
    await clock.advance(60_000);
    gate.tryEnter({ inFlight: 0, proven: true, pump: () => undefined }, state.config.receiverUrl);
    offer();
    await clock.advance(2_100);
    expect(putOff).toEqual([{ reason: "lane_full", forMs: 2_000 }]);
  });

  it("also while more keeps coming, up to the first pause of a circuit: the receiver may be well, and have nothing to do by then", async () => {
    const { gate, clock, state, putOff, offer } = makeLane({ maxAtReceiver: 1 });
    gate.tryEnter({ inFlight: 0, proven: true, pump: () => undefined }, state.config.receiverUrl);
    for (let second = 0; second < 60; second += 1) {
      offer();
      await clock.advance(1_000);
    }
    expect(putOff[5]!.forMs).toBeGreaterThan(5_000);
    expect(putOff.at(-1)!.forMs).toBe(OPEN_MS);
  });
});

describe("the circuit of a lane", () => {
  it("lets one task probe when it half opens; meanwhile it takes no others, and those that wait are put off", async () => {
    const { lane, clock, state, started, putOff, offer, reply } = makeLane({ breaker: BREAKER });
    offer();
    await reply(0, answer(500));
    expect(lane.hasRoom()).toBe(false);
    await clock.advance(OPEN_MS);
    expect(lane.hasRoom()).toBe(true);
    state.isOwned = false;
    offer();
    // The first may probe, so it waits; the others would only wait for it.
    offer(2);
    expect(putOff.map(({ reason }) => reason)).toEqual(["circuit_open", "circuit_open"]);
    state.isOwned = true;
    lane.pump();
    expect(started).toHaveLength(2);
    expect(lane.hasRoom()).toBe(false);
    offer();
    expect(putOff).toHaveLength(3);
    await reply(1, answer(200));
    expect(lane.hasRoom()).toBe(true);
    offer(2);
    expect(started).toHaveLength(4);
  });

  it("lets only one of those that wait in the lane probe when the destination has been changed", async () => {
    const { lane, clock, state, started, putOff, offer, reply } = makeLane({ breaker: BREAKER });
    offer(6);
    state.isOwned = false;
    for (let nth = 0; nth < 4; nth += 1) await reply(nth, answer(500));
    expect({ isOpen: lane.isCircuitOpen, queued: lane.queued }).toEqual({
      isOpen: true,
      queued: 2,
    });
    state.isOwned = true;
    lane.onDestinationChanged();
    expect(started).toHaveLength(5);
    await clock.advance(2_000);
    expect(putOff.map(({ reason }) => reason)).toEqual(["circuit_open"]);
  });

  it("puts off what comes while a probe hangs for as long as it has, at least two seconds", async () => {
    const { clock, putOff, started, offer, reply } = makeLane({ breaker: BREAKER });
    offer();
    await reply(0, answer(500));
    await clock.advance(OPEN_MS);
    offer();
    expect(started).toHaveLength(2);
    offer();
    expect(putOff.at(-1)!.forMs).toBe(2_000);
    await clock.advance(8_000);
    offer();
    expect(putOff.at(-1)!.forMs).toBe(8_000);
  });

  it("ends what has been failing for as long as its whole schedule, at least a minute, and not sooner", async () => {
    const breaker = { ...BREAKER, openMs: 600_000 };
    const { clock, ended, putOff, offer, reply, configure } = makeLane({ breaker });
    configure({ retryBackoff: "fixed", retryMaxAttempts: 0 });
    offer();
    await reply(0, answer(500));
    const of = { runStartedAtMs: clock.now() - HOUR };
    await clock.advance(59_999);
    offer(1, of);
    expect(putOff).toHaveLength(1);
    await clock.advance(1);
    offer(1, of);
    expect(ended).toEqual([DEADLINE_PASSED]);
    // The schedule of a run begins when it begins.
    offer(1);
    expect(putOff).toHaveLength(2);
    configure({ retryMaxAttempts: 10 });
    offer(1, of);
    expect(putOff).toHaveLength(3);
    expect(ended).toHaveLength(1);
  });

  it("opens early for new runs that fail, not for retries of runs that began at different times", async () => {
    const breaker = { ...BREAKER, failures: 3, minStreakMs: 3_600_000, minNewRunsMs: 5_000 };
    const { lane, clock, offer, reply } = makeLane({ breaker });
    const fail = async (from: number, changes: Partial<DeliveryTask>): Promise<void> => {
      for (let nth = from; nth < from + 3; nth += 1) {
        offer(1, changes);
        await reply(nth, answer(500));
        await clock.advance(3_000);
      }
    };
    await fail(0, { tryNumber: 2 });
    expect(lane.isCircuitOpen).toBe(false);
    await fail(3, { tryNumber: 1 });
    expect(lane.isCircuitOpen).toBe(true);
  });
});
