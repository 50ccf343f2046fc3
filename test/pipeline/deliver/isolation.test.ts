import { describe, expect, it } from "vitest";
import { DEFAULT_DELIVERY_OPTIONS } from "../../../src/pipeline/deliver/delivery-options.ts";
import {
  answer,
  FAIL,
  HANG,
  OK,
  QUICK_BREAKER,
  SimWorld,
  type Behaviour,
  type SeenRequest,
} from "../../support/sim-world.ts";

const HOUR = 3_600_000;
const NEW_URL = "https://new.example.com/";

function failsUntil(wellAtMs: number): Behaviour {
  return ({ atMs }) => ({ afterMs: 5, reply: answer(atMs < wellAtMs ? 503 : 200) });
}

function statusesOf(world: SimWorld): string[] {
  return [...world.ended().values()].map(({ status }) => status);
}

function inFlightAt(world: SimWorld, nowMs: number): number {
  return world.seen.filter(
    ({ atMs, answeredAtMs }) => atMs <= nowMs && (answeredAtMs === null || answeredAtMs > nowMs),
  ).length;
}

/** Ingests ten events a second, until the circuit of the only destination is open. */
async function failUntilOpen(world: SimWorld, events: number): Promise<void> {
  for (let count = 0; count < events; count += 1) {
    world.ingest();
    await world.clock.advance(100);
  }
  expect(world.openCircuits).toBe(1);
}

/** Configures destinations whose receivers answer after a second each for eight seconds, and then no more. */
function configureThatHangLater(world: SimWorld, count: number): void {
  const hangAtMs = world.clock.now() + 8_000;
  for (let index = 0; index < count; index += 1) {
    world.configure(`dst_${index}`);
    world.behave(`dst_${index}`, (seen, nth) =>
      seen.atMs < hangAtMs ? { afterMs: 1_000, reply: answer(200) } : HANG(seen, nth),
    );
  }
}

/** Expects five deliveries to another destination, each within a second. */
async function expectPromptDeliveries(world: SimWorld): Promise<void> {
  world.configure("dst_well");
  world.behave("dst_well", OK);
  for (let count = 1; count <= 5; count += 1) {
    world.replay(world.makeEvent(), "dst_well", `run${count}`);
    await world.clock.advance(1_000);
    expect(world.requestsTo("dst_well")).toHaveLength(count);
  }
}

describe("isolation", () => {
  it("receivers that hang delay nobody else on their partition, and free it", async () => {
    const world = new SimWorld({ delivery: { maxInFlight: 200 } });
    for (let index = 0; index < 100; index += 1) {
      world.configure(`dst_${index}`);
      world.behave(`dst_${index}`, index < 50 ? HANG : OK);
    }
    await world.start();
    const sentAt = new Map<string, number>();
    for (let round = 0; round < 20; round += 1) {
      const event = world.ingest();
      sentAt.set(event.id, world.clock.now());
      await world.clock.advance(500);
    }
    await world.clock.advance(5_000);
    for (let index = 50; index < 100; index += 1) {
      const seen = world.requestsTo(`dst_${index}`);
      expect(seen).toHaveLength(20);
      for (const { eventId, atMs } of seen) expect(atMs - sentAt.get(eventId)!).toBeLessThan(100);
    }
    await world.clock.advance(30_000);
    expect(world.store.committed("delivery", "events", 0)?.offset).toBe(20);
  });

  it("receivers that worked with a backlog and hang all at once delay nobody else in the process", async () => {
    const world = new SimWorld({ delivery: { maxInFlight: 100 } });
    configureThatHangLater(world, 10);
    await world.start();
    for (let count = 0; count < 400; count += 1) world.ingest();
    await world.clock.advance(10_000);
    await expectPromptDeliveries(world);
  });

  it.each([
    ["one that may have all places of the process", 1, 100],
    ["two that may have half of them each", 2, 50],
    ["ten that may have a tenth each", 10, 10],
  ])(
    "receivers that work and then hang delay nobody else, however many tries each may have in flight: %s",
    async (_case, hanging, concurrency) => {
      const world = new SimWorld({
        delivery: { maxInFlight: 100, concurrency, connectionsPerReceiver: 100 },
      });
      configureThatHangLater(world, hanging);
      await world.start();
      for (let count = 0; count < 1_000; count += 1) world.ingest();
      await world.clock.advance(10_000);
      expect(inFlightAt(world, world.clock.now())).toBeGreaterThanOrEqual(50);
      await expectPromptDeliveries(world);
    },
  );

  it("destinations that share a URL have no more tries in flight than it has connections; the rest is put off and spends no retry", async () => {
    const connections = 8;
    const world = new SimWorld({ delivery: { connectionsPerReceiver: connections } });
    for (const id of ["dst_1", "dst_2", "dst_3"]) {
      world.configure(id, { receiverUrl: NEW_URL });
      world.behave(id, () => ({ afterMs: 3_000, reply: answer(200) }));
    }
    await world.start();
    for (let count = 0; count < 60; count += 1) world.ingest();
    await world.clock.until(() => world.ended().size === 180, 10 * 60_000);
    expect(Math.max(...world.seen.map(({ atMs }) => inFlightAt(world, atMs)))).toBe(connections);
    expect(world.attempts().map(({ status }) => status)).toEqual(Array(180).fill("delivered"));
    expect(new Set(world.seen.map(({ attempt }) => attempt))).toEqual(new Set([1]));
    const firstHalf = world.seen.slice(0, 90);
    for (const id of ["dst_1", "dst_2", "dst_3"])
      expect(firstHalf.filter(({ destinationId }) => destinationId === id).length).toBeGreaterThan(
        9,
      );
  });

  it("a burst larger than a lane goes through the delay tiers and all of it arrives", async () => {
    const world = new SimWorld();
    world.configure("dst_1");
    world.behave("dst_1", () => ({ afterMs: 200, reply: answer(200) }));
    await world.start();
    for (let count = 0; count < 3_000; count += 1) world.ingest();
    await world.clock.until(() => world.ended().size === 3_000, 120_000, 1_000);
    expect(world.seen).toHaveLength(3_000);
    expect(world.deferrals).toContain("lane_full");
    expect(world.deferrals.length).toBeLessThan(9_000);
  });
});

it("a receiver that hangs is not asked about every few seconds for each event that waits: beside a thousand such ones the others kept 0.80", async () => {
  const world = new SimWorld();
  world.configure("dst_1");
  world.behave("dst_1", HANG);
  await world.start();
  for (let count = 0; count < 140; count += 1) {
    world.ingest();
    await world.clock.advance(100);
  }
  const hung = world.seen.length;
  expect(world.deferrals.length).toBeGreaterThan(140 - 20 - hung);
  expect(world.deferrals.length).toBeLessThan(1.5 * 140);
  // As soon as it answers, new tries pass; the others follow within the longest wait.
  world.behave("dst_1", OK);
  await world.clock.until(() => world.ended().size >= 140 - hung, 20_000, 100);
});

it("what waited while the process stood still goes on as soon as it does: it was put off for as long again, ten seconds, beside an idle receiver", async () => {
  const world = new SimWorld();
  const frozenMs = 12_000;
  world.configure("dst_1");
  // The first answers come while the process is frozen, and are read right after its timers fire.
  world.behave("dst_1", (_request, nth) => ({
    afterMs: nth < 4 ? frozenMs + 1 : 100,
    reply: answer(200),
  }));
  await world.start();
  for (let count = 0; count < 40; count += 1) world.ingest();
  await world.clock.until(() => world.seen.length === 4, 1_000, 1);
  world.clock.standStill(frozenMs);
  await world.clock.until(() => world.ended().size === 40, 2_000);
  expect(world.deferrals).toEqual([]);
});

it("what waits since hung receivers have the places of all that are not proven is looked at every two seconds: it came up to ten after they had timed out", async () => {
  const world = new SimWorld({ delivery: { maxInFlight: 100 } });
  for (let index = 0; index < 60; index += 1) {
    world.configure(`dst_hung_${index}`, { endpointId: `ep_hung_${index}`, retryMaxAttempts: 0 });
    world.behave(`dst_hung_${index}`, HANG);
  }
  world.configure("dst_1");
  world.behave("dst_1", OK);
  await world.start();
  for (let index = 0; index < 60; index += 1) world.ingest({ endpointId: `ep_hung_${index}` });
  await world.clock.advance(100);
  for (let count = 0; count < 28; count += 1) {
    world.ingest();
    await world.clock.advance(500);
  }
  expect(world.requestsTo("dst_1")).toHaveLength(0);
  await world.clock.advance(7_000);
  expect(world.requestsTo("dst_1")).toHaveLength(28);
});

it.each([
  [1, 1],
  [3, 3],
  [64, 4],
])(
  "with %i tries in flight at most, a receiver that has not answered yet gets %i",
  async (concurrency, most) => {
    const world = new SimWorld({ delivery: { concurrency } });
    world.configure("dst_1");
    world.behave("dst_1", HANG);
    await world.start();
    for (let count = 0; count < 10; count += 1) world.ingest();
    await world.clock.advance(1_000);
    expect(world.seen).toHaveLength(most);
    world.configure("dst_1", { receiverUrl: NEW_URL });
    await world.clock.advance(1_000);
    expect(inFlightAt(world, world.clock.now())).toBeLessThanOrEqual(most);
  },
);

it("what waits at a receiver that works slowly comes within two seconds of its answers: it came up to ten after them, beside an idle lane", async () => {
  const world = new SimWorld({ delivery: { concurrency: 4 } });
  world.configure("dst_1");
  world.behave("dst_1", OK);
  await world.start();
  world.ingest();
  await world.clock.until(() => world.ended().size === 1, 1_000);
  world.behave("dst_1", () => ({ afterMs: 8_000, reply: answer(200) }));
  for (let count = 0; count < 5; count += 1) world.ingest();
  const sentAtMs = world.clock.now();
  await world.clock.until(() => world.seen.length === 6, 20_000, 10);
  expect(world.clock.now() - sentAtMs).toBeLessThan(8_000 + 2_000);
});

it("what waited while ownership was in doubt starts as soon as it is sure, where it can: all of it was put off", async () => {
  const world = new SimWorld({ delivery: { concurrency: 1 } });
  world.configure("dst_1");
  world.behave("dst_1", () => ({ afterMs: 500, reply: answer(200) }));
  const process = await world.start();
  for (let count = 0; count < 2; count += 1) world.ingest();
  await world.clock.until(() => world.seen.length === 1, 1_000, 10);
  process.inDoubtUntilMs = world.clock.now() + 4_000;
  await world.clock.until(() => world.seen.length === 2, 10_000, 10);
  expect(world.deferrals).toEqual([]);
});

it("what was put off while a receiver was ill comes back at the pace it had before", async () => {
  const world = new SimWorld({ delivery: { concurrency: 16 } });
  world.configure("dst_1", { retryBackoff: "fixed", retryMaxAttempts: 10 });
  const well: Behaviour = () => ({ afterMs: 300, reply: answer(200) });
  world.behave("dst_1", well);
  await world.start();
  const feed = async (seconds: number, perSecond: number): Promise<void> => {
    for (let second = 0; second < seconds; second += 1) {
      for (let count = 0; count < perSecond; count += 1) world.ingest();
      await world.clock.advance(1_000);
    }
  };
  await feed(10, 40);
  // The receiver fails for a while, not long enough to open the circuit; the backlog is half a minute's work.
  world.behave("dst_1", () => ({
    afterMs: 4_000,
    reply: { kind: "timeout", reason: "no answer within 4 s", latencyMs: 4_000 },
  }));
  await feed(9, 150);
  world.behave("dst_1", well);
  const delivered = (): number => world.ended().size;
  await world.clock.until(() => delivered() === 400 + 1_350, 70_000, 500);
  expect(delivered()).toBe(400 + 1_350);
});

it("regression: a try that hangs stops nobody on its partition, however many records are complete behind it: 50,000 did", async () => {
  const world = new SimWorld();
  world.configure("dst_1", { endpointId: "ep_hung" });
  world.behave("dst_1", HANG);
  await world.start();
  world.ingest({ endpointId: "ep_hung" });
  await world.clock.advance(100);
  // They have no destination: they are complete as soon as they are taken in.
  for (let count = 0; count < 51_000; count += 1) world.ingest({ endpointId: "ep_none" });
  world.configure("dst_2");
  world.ingest();
  await world.clock.until(() => world.requestsTo("dst_2").length === 1, 10_000, 100);
  expect(world.requestsTo("dst_2")).toHaveLength(1);
});

describe("circuit breaker", () => {
  it("puts tries off without spending retries, probes, and closes on the first success", async () => {
    const world = new SimWorld({ delivery: { breaker: QUICK_BREAKER, retryBaseMs: 1_000 } });
    world.configure("dst_1", { retryBackoff: "fixed", retryMaxAttempts: 10 });
    world.behave("dst_1", FAIL);
    await world.start();
    for (let count = 0; count < 10; count += 1) world.ingest();
    await world.clock.advance(5_000);
    expect(world.openCircuits).toBe(1);
    const seen = world.seen.length;
    for (let count = 0; count < 50; count += 1) world.ingest();
    await world.clock.advance(2_000);
    expect(world.seen).toHaveLength(seen);
    world.behave("dst_1", OK);
    await world.clock.advance(60_000);
    expect(world.openCircuits).toBe(0);
    expect(world.ended().size).toBe(60);
    expect([...world.ended().values()].every((row) => row.status === "delivered")).toBe(true);
  });

  it("ends a task dead once its whole retry schedule would have elapsed", async () => {
    const world = new SimWorld({ delivery: { breaker: QUICK_BREAKER, retryBaseMs: 1_000 } });
    world.configure("dst_1", { retryBackoff: "fixed", retryMaxAttempts: 10 });
    world.behave("dst_1", FAIL);
    await world.start();
    for (let count = 0; count < 30; count += 1) world.ingest();
    await world.clock.advance(3_600_000);
    const ended = [...world.ended().values()];
    expect(ended).toHaveLength(30);
    expect(ended.every((row) => row.status === "dead")).toBe(true);
    // Ten retries after 1.2 s at most, eleven tries of 15 s, then at most one more look.
    for (const row of ended)
      expect(row.attemptedAtMs - row.eventReceivedAtMs).toBeLessThan(177_000 + 60_000 * 2);
    expect(world.seen.length).toBeLessThan(330);
  });

  it("ends nothing while the receiver asks for more time than the schedule is long", async () => {
    const world = new SimWorld();
    world.configure("dst_1");
    await world.start();
    const wellAtMs = world.clock.now() + 3 * HOUR;
    world.behave("dst_1", ({ atMs }) => {
      const waitSeconds = Math.ceil((wellAtMs - atMs) / 1_000);
      const reply = waitSeconds > 0 ? answer(503, "", String(waitSeconds)) : answer(200);
      return { afterMs: 5, reply };
    });
    for (let count = 0; count < 60; count += 1) {
      world.ingest();
      await world.clock.advance(1_000);
    }
    expect(world.openCircuits).toBe(1);
    await world.clock.advance(3 * HOUR + 10 * 60_000);
    expect(statusesOf(world)).toEqual(Array(60).fill("delivered"));
  });

  it("a receiver that asks for more time without end gets the whole schedule at that pace, and no more", async () => {
    const world = new SimWorld({ delivery: { breaker: QUICK_BREAKER, retryBaseMs: 1_000 } });
    world.configure("dst_1", { retryBackoff: "fixed", retryMaxAttempts: 2 });
    world.behave("dst_1", () => ({ afterMs: 5, reply: answer(503, "", "600") }));
    await world.start();
    for (let count = 0; count < 30; count += 1) {
      world.ingest();
      await world.clock.advance(100);
    }
    await world.clock.advance(1_100_000);
    expect(world.ended().size).toBe(0);
    await world.clock.advance(HOUR);
    expect(statusesOf(world)).toEqual(Array(30).fill("dead"));
  });

  it("a failure of seconds ends nothing of the backlog that an outage of the relay left", async () => {
    const world = new SimWorld();
    world.configure("dst_1");
    for (let count = 0; count < 500; count += 1) {
      world.ingest();
      await world.clock.advance(1_000);
    }
    await world.clock.advance(2 * HOUR);
    const startedMs = world.clock.now();
    world.behave("dst_1", failsUntil(startedMs + 8_000));
    await world.start();
    // Among the late tries are some that come in time, so the circuit opens.
    for (let second = 0; second < 8; second += 1) {
      for (let count = 0; count < 5; count += 1) world.ingest();
      await world.clock.advance(1_000);
    }
    expect(world.openCircuits).toBe(1);
    await world.clock.advance(10 * 60_000);
    expect(statusesOf(world)).toEqual(Array(540).fill("delivered"));
  });

  it("does not open within milliseconds on a backlog whose runs began long apart", async () => {
    const world = new SimWorld();
    world.configure("dst_1");
    for (let count = 0; count < 100; count += 1) {
      world.ingest();
      await world.clock.advance(1_000);
    }
    world.behave("dst_1", FAIL);
    await world.start();
    await world.clock.advance(2_000);
    expect(world.seen).toHaveLength(100);
    expect(world.openCircuits).toBe(0);
  });

  it("what the rate limit let wait longer than its schedule is not ended by a failure of seconds", async () => {
    const world = new SimWorld();
    world.configure("dst_1", {
      retryBackoff: "fixed",
      retryMaxAttempts: 3,
      rateLimitMax: 20,
      rateLimitWindow: "minute",
    });
    await world.start();
    for (let count = 0; count < 200; count += 1) world.ingest();
    await world.clock.advance(5 * 60_000);
    world.behave("dst_1", failsUntil(world.clock.now() + 100_000));
    await world.clock.advance(90_000);
    expect(world.openCircuits).toBe(1);
    await world.clock.advance(HOUR);
    expect(statusesOf(world)).toEqual(Array(200).fill("delivered"));
  });

  it("of the old URL keeps nobody from the new one, nor does a probe of the old one that still hangs", async () => {
    const world = new SimWorld();
    world.configure("dst_1");
    world.behave("dst_1", (seen, nth) =>
      seen.request.url === NEW_URL ? OK(seen, nth) : HANG(seen, nth),
    );
    await world.start();
    for (let second = 0; second < 1_200; second += 1) {
      if (second % 5 === 0) world.ingest();
      await world.clock.advance(1_000);
    }
    expect(world.openCircuits).toBe(1);
    const probed = world.seen.length;
    await world.clock.until(() => world.seen.length > probed, HOUR, 100);
    await world.clock.advance(1_000);
    const changedAtMs = world.clock.now();
    world.configure("dst_1", { receiverUrl: NEW_URL });
    const event = world.ingest();
    await world.clock.advance(5_000);
    const isNew = ({ request }: SeenRequest): boolean => request.url === NEW_URL;
    expect(world.seen.find(isNew)!.atMs - changedAtMs).toBeLessThan(5_000);
    expect(world.ended().get(`${event.id}|dst_1|event`)).toMatchObject({ status: "delivered" });
    expect(world.openCircuits).toBe(0);
    await world.clock.advance(15_000);
    expect(world.openCircuits).toBe(0);
  });

  it("is forgotten when its destination is deleted", async () => {
    const world = new SimWorld();
    world.configure("dst_1");
    world.behave("dst_1", FAIL);
    await world.start();
    await failUntilOpen(world, 100);
    world.remove("dst_1");
    await world.clock.advance(60_000);
    expect(world.openCircuits).toBe(0);
  });

  it("regression: is forgotten when nothing waits for it and no more comes: it was counted, and alerted somebody, for good", async () => {
    const world = new SimWorld();
    world.configure("dst_1", { retryBackoff: "fixed", retryMaxAttempts: 2 });
    world.behave("dst_1", FAIL);
    await world.start();
    await failUntilOpen(world, 100);
    await world.clock.until(() => world.ended().size === 100, HOUR, 1_000);
    await world.clock.advance(60_000);
    expect(world.openCircuits).toBe(1);
    await world.clock.advance(2 * DEFAULT_DELIVERY_OPTIONS.breaker.maxOpenMs);
    expect(world.openCircuits).toBe(0);
  });

  it("is counted once when the process stops while it is looked up whether its destination was deleted", async () => {
    const world = new SimWorld({ delivery: { breaker: QUICK_BREAKER } });
    world.configure("dst_1");
    world.behave("dst_1", FAIL);
    const process = await world.start();
    await failUntilOpen(world, 50);
    world.configKind = "async";
    world.remove("dst_1");
    await world.clock.until(() => world.clock.now() % 30_000 < 1, 60_000, 1);
    await world.stop(process);
    await world.clock.advance(1_000);
    expect(world.openCircuits).toBe(0);
  });

  it("is counted once when its probe ends while the process stops", async () => {
    const world = new SimWorld({ delivery: { breaker: QUICK_BREAKER } });
    world.configure("dst_1");
    world.behave("dst_1", FAIL);
    const process = await world.start();
    await failUntilOpen(world, 50);
    world.behave("dst_1", () => ({ afterMs: 1_000, reply: answer(200) }));
    const failed = world.seen.length;
    await world.clock.until(() => world.seen.length > failed, 60_000, 100);
    await world.stop(process);
    expect(world.openCircuits).toBe(0);
  });

  it("opens soon when events go on coming to a receiver that is down", async () => {
    const world = new SimWorld();
    world.configure("dst_1");
    world.behave("dst_1", FAIL);
    await world.start();
    for (let second = 0; second < 9; second += 1) {
      for (let count = 0; count < 10; count += 1) world.ingest();
      await world.clock.advance(1_000);
    }
    expect(world.openCircuits).toBe(1);
    // The tries of the first five seconds.
    expect(world.seen.length).toBeGreaterThanOrEqual(50);
    expect(world.seen.length).toBeLessThanOrEqual(60);
    world.behave("dst_1", OK);
    await world.clock.advance(60_000);
    expect(world.openCircuits).toBe(0);
    expect(statusesOf(world)).toEqual(Array(90).fill("delivered"));
  });

  it("what it puts off does not come back all at once", async () => {
    const world = new SimWorld();
    world.configure("dst_1");
    world.behave("dst_1", FAIL);
    await world.start();
    const perSecond: number[] = [];
    for (let second = 0; second < 60; second += 1) {
      const before = world.deferrals.length;
      for (let count = 0; count < 20; count += 1) world.ingest();
      await world.clock.advance(1_000);
      perSecond.push(world.deferrals.length - before);
    }
    expect(world.openCircuits).toBe(1);
    expect(Math.max(...perSecond)).toBeLessThanOrEqual(120);
  });

  it("does not open soon on the retries of a burst", async () => {
    const world = new SimWorld({ delivery: { retryBaseMs: 2_000 } });
    world.configure("dst_1", { retryBackoff: "fixed", retryMaxAttempts: 10 });
    world.behave("dst_1", FAIL);
    await world.start();
    for (let count = 0; count < 40; count += 1) world.ingest();
    await world.clock.advance(25_000);
    expect(world.openCircuits).toBe(0);
    expect(world.seen.length).toBe(40 * 11);
  });

  it("does not open on the retries of a single event", async () => {
    const world = new SimWorld({ delivery: { retryBaseMs: 200 } });
    world.configure("dst_1", { retryBackoff: "fixed", retryMaxAttempts: 10 });
    world.behave("dst_1", FAIL);
    await world.start();
    world.ingest();
    await world.clock.advance(60_000);
    expect(world.seen).toHaveLength(11);
    expect(world.deferrals).toEqual([]);
  });
});

describe("a configuration that is looked up", () => {
  it("is not asked for again and again while a lane waits for its turn", async () => {
    const world = new SimWorld({ delivery: { maxInFlight: 4 } });
    world.configKind = "async";
    for (let index = 0; index < 4; index += 1) {
      world.configure(`dst_${index}`);
      world.behave(`dst_${index}`, HANG);
    }
    await world.start();
    for (let count = 0; count < 5; count += 1) world.ingest();
    await world.clock.advance(100);
    let lookUps = 0;
    const sleep = world.clock.sleep.bind(world.clock);
    world.clock.sleep = (delayMs) => {
      lookUps += 1;
      return sleep(delayMs);
    };
    await world.clock.advance(10_000);
    expect(lookUps).toBeLessThan(500);
    await world.clock.advance(15_000);
    expect(world.store.committed("delivery", "events", 0)?.offset).toBe(5);
  });
});
