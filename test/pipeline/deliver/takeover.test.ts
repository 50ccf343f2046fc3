import { describe, expect, it } from "vitest";
import { DELAY_TIERS } from "../../../src/domain/delay-tier.ts";
import { CONFIG_RETRY_MS } from "../../../src/pipeline/deliver/config-retry.ts";
import { decodeClaim, encodeClaim } from "../../../src/pipeline/deliver/recovery/claim.ts";
import { encodeHeldTask } from "../../../src/pipeline/deliver/held/held-codec.ts";
import { concludeTry } from "../../../src/pipeline/deliver/try/conclude.ts";
import { firstTry } from "../../../src/domain/delivery-task.ts";
import { encodeOutcome } from "../../../src/pipeline/log/outcome-codec.ts";
import { encodeTask } from "../../../src/pipeline/log/task-codec.ts";
import type { DeliveryTask } from "../../../src/domain/delivery-task.ts";
import type { DestinationConfig } from "../../../src/domain/destination.ts";
import type { NewRecord } from "../../../src/domain/log.ts";
import type { EventRecord } from "../../../src/domain/event.ts";
import type { DeliveryOptions } from "../../../src/pipeline/deliver/delivery-options.ts";
import type { DeliveryPorts } from "../../../src/pipeline/deliver/ports.ts";
import { remainingTakeoverWaitMs } from "../../../src/pipeline/deliver/recovery/takeover-wait.ts";
import { SimClock } from "../../support/sim-clock.ts";
import { answer, SimWorld } from "../../support/sim-world.ts";
import type { Behaviour } from "../../support/sim-world.ts";

const WAIT_MS = 20_000;

it.each([
  ["who may have sent", null, WAIT_MS - 6_000],
  ["that waits, too, for longer", 60_000, WAIT_MS - 6_000],
  ["that waits for as long as it would have", 5_000, 5_000],
  ["that has waited", -1, 0],
])(
  "waits for an owner %s from the assignment on, not from when it has read the log",
  (_, left, waitMs) => {
    const clock = new SimClock();
    const shared = {
      ports: { clock } as unknown as DeliveryPorts,
      options: { takeoverWaitMs: WAIT_MS } as DeliveryOptions,
    };
    const waitsUntilMs = left === null ? null : clock.now() + left;
    const claim = { ownerId: "a", waitsUntilMs, counts: [], incompleteUntilMs: null };
    expect(remainingTakeoverWaitMs(shared, claim, 6_000)).toBe(waitMs);
    expect(remainingTakeoverWaitMs(shared, claim, 2 * WAIT_MS)).toBe(0);
    expect(remainingTakeoverWaitMs(shared, null, 0)).toBe(0);
  },
);

describe("taking a partition over from an owner that was lost", () => {
  async function killedWorld() {
    const world = new SimWorld({ delivery: { takeoverWaitMs: WAIT_MS } });
    world.configure("dst_1");
    world.behave("dst_1", () => ({ afterMs: 10, reply: answer(200) }));
    const first = await world.start("first");
    world.ingest();
    await world.clock.advance(1_000);
    expect(world.seen).toHaveLength(1);
    void world.store.kill(first, 100);
    await world.clock.advance(200);
    return world;
  }

  it("waits once, from the assignment on", async () => {
    const world = await killedWorld();
    await world.start("second");
    world.ingest();
    await world.clock.advance(WAIT_MS - 1_000);
    expect(world.seen).toHaveLength(1);
    await world.clock.advance(2_000);
    expect(world.seen).toHaveLength(2);
  });

  it("does not wait all over again when the one that waited is lost as well: it has sent nothing", async () => {
    const world = await killedWorld();
    const second = await world.start("second");
    world.ingest();
    await world.clock.advance(WAIT_MS / 2);
    void world.store.kill(second, 100);
    await world.clock.advance(200);
    await world.start("third");
    await world.clock.advance(WAIT_MS / 2 - 1_000);
    expect(world.seen).toHaveLength(1);
    await world.clock.advance(2_000);
    expect(world.seen).toHaveLength(2);
  });

  it("waits for the rest of that time also when the one that waited has handed it on in order", async () => {
    const world = await killedWorld();
    await world.start("second");
    world.ingest();
    await world.clock.advance(WAIT_MS / 2);
    await world.start("third");
    void world.store.rotate("delivery", false);
    await world.clock.advance(WAIT_MS / 2 - 1_000);
    expect(world.seen).toHaveLength(1);
    await world.clock.advance(2_000);
    expect(world.seen).toHaveLength(2);
  });

  it("waits for one that had begun to send after its own wait", async () => {
    const world = await killedWorld();
    const second = await world.start("second");
    await world.clock.advance(WAIT_MS + 1_000);
    void world.store.kill(second, 100);
    await world.clock.advance(200);
    await world.start("third");
    world.ingest();
    await world.clock.advance(WAIT_MS - 1_000);
    expect(world.seen).toHaveLength(1);
    await world.clock.advance(2_000);
    expect(world.seen).toHaveLength(2);
  });
});

describe("taking a partition over from an owner that lost it before it had begun to send", () => {
  /** Has the partition go to a second process while the first one commits its claim. */
  async function movedDuringClaim(world: SimWorld): Promise<void> {
    const faults = { ...world.store.faults };
    world.store.faults = { ...faults, appendMs: () => 500 };
    await world.start("first");
    await world.clock.advance(100);
    world.store.faults = faults;
    await world.start("second");
    void world.store.rotate("delivery", false);
    await world.clock.advance(2_000);
  }

  it("regression: does not wait: the first webhooks of a cluster whose processes start together came after a takeover wait", async () => {
    const world = new SimWorld({ delivery: { takeoverWaitMs: WAIT_MS } });
    world.configure("dst_1");
    world.behave("dst_1", () => ({ afterMs: 10, reply: answer(200) }));
    await movedDuringClaim(world);
    world.ingest();
    await world.clock.advance(2_000);
    expect(world.seen).toHaveLength(1);
  });
});

it("an owner that goes on while a try hangs does not call its partition released: the next one sends nothing meanwhile", async () => {
  const world = new SimWorld({ delivery: { takeoverWaitMs: WAIT_MS } });
  world.configure("dst_1");
  world.behave("dst_1", () => ({ afterMs: 12_000, reply: answer(200) }));
  await world.start("first");
  await world.start("second");
  await world.clock.advance(1_000);
  world.ingest();
  await world.clock.advance(1_000);
  expect(world.seen).toHaveLength(1);
  void world.store.rotate("delivery", false);
  await world.clock.advance(2 * WAIT_MS);
  expect(world.seen).toHaveLength(1);
  expect(world.ended().size).toBe(1);
});

it("a copy that is published after the new owner has caught up is not sent again", async () => {
  const world = new SimWorld({ delivery: { takeoverWaitMs: 0 } });
  world.configure("dst_1");
  world.behave("dst_1", (_, nth) => ({ afterMs: 10, reply: answer(nth === 0 ? 500 : 200) }));
  const first = await world.start("first");
  world.ingest();
  await world.clock.until(() => world.ended().size === 1, 60_000, 100);
  expect(world.seen.map(({ attempt }) => attempt)).toEqual([1, 2]);
  const [retry] = world.store.all("tasks");
  void world.store.kill(first, 100);
  await world.clock.advance(200);
  await world.start("second");
  world.ingest();
  await world.clock.advance(5_000);
  expect(world.seen).toHaveLength(3);
  const dropped = world.droppedDuplicates;
  // As a delay forwarder does that takes over even later, from one whose last commit was lost.
  world.store.write([{ topic: "tasks", key: retry!.key, value: retry!.value }]);
  await world.clock.advance(5_000);
  expect(world.seen).toHaveLength(3);
  expect(world.droppedDuplicates).toBe(dropped + 1);
});

it("an event whose fan-out waits for the configuration in a delay tier is not fanned out by the next owner as well", async () => {
  const world = new SimWorld({ delivery: { takeoverWaitMs: 0 } });
  world.configure("dst_1");
  world.configKind = "unavailable";
  const first = await world.start("first");
  const event = world.ingest();
  await world.clock.until(
    () => DELAY_TIERS.some(({ topic }) => world.store.all(topic).length > 0),
    5_000,
    1,
  );
  void world.store.kill(first, 1);
  expect(world.store.committed("delivery", "events", 0)?.offset ?? 0).toBe(0);
  await world.clock.advance(10);
  world.configKind = "sync";
  await world.start("second");
  await world.clock.until(() => world.ended().size === 1, 60_000, 10);
  expect(world.seen.map(({ eventId }) => eventId)).toEqual([event.id]);
  expect(world.seen[0]!.atMs).toBeGreaterThanOrEqual(event.receivedAtMs + CONFIG_RETRY_MS);
  expect(world.store.committed("delivery", "events", 0)?.offset).toBe(1);
});

it("an event goes to whom its recorded fan-out names, not to a destination that came before the next owner did", async () => {
  const world = new SimWorld({ delivery: { takeoverWaitMs: 0 } });
  world.configure("dst_1");
  world.behave("dst_1", (_, nth) => ({ afterMs: nth === 0 ? 10_000 : 10, reply: answer(200) }));
  const first = await world.start("first");
  world.ingest();
  await world.clock.advance(1_000);
  void world.store.kill(first, 100);
  await world.clock.advance(200);
  world.configure("dst_2");
  await world.start("second");
  await world.clock.until(() => world.ended().size === 1, 60_000, 100);
  await world.clock.advance(5_000);
  expect(world.seen.map(({ destinationId }) => destinationId)).toEqual(["dst_1", "dst_1"]);
  const fanouts = world.outcomes().filter(({ kind }) => kind === "fanout");
  expect(fanouts).toMatchObject([{ destinationIds: ["dst_1"] }]);
});

it("a second copy that comes out of a delay tier minutes later is not sent by a next owner either", async () => {
  const world = new SimWorld({ delivery: { takeoverWaitMs: 0 } });
  world.configure("dst_1");
  const first = await world.start("first");
  const event = world.ingest();
  for (let sent = 1; sent < 3_000; sent += 100) {
    for (let count = 0; count < 100; count += 1) world.ingest();
    await world.clock.advance(1_000);
  }
  await world.clock.until(() => world.ended().size === world.seen.length, 60_000, 100);
  await world.clock.advance(5_000);
  const sent = world.seen.length;
  expect(sent).toBeGreaterThan(2_500);
  void world.store.kill(first, 100);
  await world.clock.advance(200);
  await world.start("second");
  await world.clock.advance(5_000);
  const copy = { ...firstTry(event, "dst_1", world.clock.now()), deferrals: 1 };
  world.store.write([{ topic: "tasks", key: event.endpointId, value: encodeTask(copy) }]);
  await world.clock.advance(5_000);
  expect(world.seen).toHaveLength(sent);
  expect(world.droppedDuplicates).toBe(1);
});

describe("what an owner writes that stood still until another had begun", () => {
  function writeTask(world: SimWorld, event: EventRecord, step: Partial<DeliveryTask>): void {
    const task = { ...firstTry(event, "dst_1", world.clock.now()), ...step };
    world.store.write([{ topic: "tasks", key: event.endpointId, value: encodeTask(task) }]);
  }

  it("a follow-up that waits is not made once the run has ended", async () => {
    const world = new SimWorld();
    world.configure("dst_1");
    world.behave("dst_1", () => ({ afterMs: 500, reply: answer(200) }));
    await world.start("second");
    const event = world.ingest();
    await world.clock.advance(100);
    writeTask(world, event, { tryNumber: 2, dueAtMs: world.clock.now() + 1_000 });
    await world.clock.advance(5_000);
    expect(world.seen.map(({ attempt }) => attempt)).toEqual([1]);
    expect(world.droppedDuplicates).toBe(1);
    expect(world.attempts().map(({ status }) => status)).toEqual(["delivered"]);
    // Or its partition would stay where it is for ever.
    expect(world.store.committed("delivery", "tasks", 0)?.offset).toBe(1);
  });

  it("a copy of a try that was put off meanwhile waits as long as its row says", async () => {
    const world = new SimWorld();
    world.configure("dst_1", { rateLimitMax: 1, rateLimitWindow: "minute" });
    await world.start("second");
    // By then the new owner has looked for what may go on sooner.
    await world.clock.advance(60_000);
    world.ingest();
    await world.clock.advance(100);
    const event = world.ingest();
    await world.clock.advance(100);
    const putOff = world.attempts().find(({ status }) => status === "rate_limited");
    // The change is not announced, or what was put off would be recalled.
    world.tellsChanges = false;
    world.configure("dst_1", { rateLimitMax: null, rateLimitWindow: null });
    writeTask(world, event, { deferrals: 1 });
    await world.clock.until(() => world.seen.length === 2, 120_000, 100);
    const [, second] = world.seen;
    expect(second!.atMs).toBeGreaterThanOrEqual(putOff!.nextRetryAtMs!);
  });
});

it("an end that its owner could make durable only after the next one had begun spares what still waits", async () => {
  const world = new SimWorld({ delivery: { takeoverWaitMs: 1_000 } });
  const config = world.configure("dst_1");
  await loseOwner(world);
  world.configKind = "unavailable";
  const event = world.ingest();
  await world.start("second");
  await world.clock.advance(2_000);
  expect(world.deferrals).toEqual(["config_unavailable"]);
  world.configKind = "sync";
  world.store.write([endOf(world, event, config)]);
  await world.clock.advance(30_000);
  expect(world.seen).toEqual([]);
  expect(world.droppedDuplicates).toBe(1);
});

describe("of one try the last row stands, and the row of a run that has ended says so", () => {
  const SLOW_THEN_OK: Behaviour = (_, nth) =>
    nth === 0
      ? { afterMs: 4_000, reply: { kind: "timeout", reason: "no answer", latencyMs: 4_000 } }
      : { afterMs: 10, reply: answer(200) };

  it("when an owner wakes whose try another has made anew", async () => {
    const world = new SimWorld({ delivery: { takeoverWaitMs: 500 } });
    world.configure("dst_1");
    world.behave("dst_1", SLOW_THEN_OK);
    const first = await world.start("first");
    world.ingest();
    await world.clock.advance(100);
    void world.store.freeze(first, 8_000, 1_000);
    await world.start("second");
    await world.clock.advance(20_000);
    expect(world.seen.map(({ process, attempt }) => [process, attempt])).toEqual([
      ["first", 1],
      ["second", 1],
    ]);
    expect(world.attempts().map(({ status }) => status)).toEqual(["delivered"]);
  });

  it("when an owner hears of it while it makes the try anew", async () => {
    const world = new SimWorld({ delivery: { takeoverWaitMs: 500 } });
    const config = world.configure("dst_1");
    await loseOwner(world);
    world.behave("dst_1", SLOW_THEN_OK);
    const event = world.ingest();
    await world.start("second");
    await world.clock.until(() => world.seen.length === 1, 5_000, 50);
    world.store.write([endOf(world, event, config)]);
    await world.clock.advance(20_000);
    expect(world.seen).toHaveLength(1);
    expect(world.attempts().map(({ status }) => status)).toEqual(["delivered"]);
  });

  it("and what lets a run go on waits while ownership is in doubt", async () => {
    const world = new SimWorld();
    world.configure("dst_1");
    world.behave("dst_1", (_, nth) => ({ afterMs: 100, reply: answer(nth === 0 ? 500 : 200) }));
    const process = await world.start("only");
    world.ingest();
    await world.clock.advance(50);
    process.inDoubtUntilMs = world.clock.now() + 3_000;
    await world.clock.advance(2_500);
    expect(world.attempts()).toEqual([]);
    await world.clock.until(() => world.ended().size === 1, 60_000, 100);
    expect(world.attempts().map(({ status }) => status)).toEqual(["failed", "delivered"]);
  });
});

it.each(["the configuration is away", "the circuit is open"])(
  "regression: a copy of a retry that has to wait went out before its Retry-After where %s",
  async (why) => {
    const breaker = { failures: 5, minStreakMs: 1_000, minNewRunsMs: 1_000, openMs: 10_000 };
    const world = new SimWorld({ delivery: { breaker: { ...breaker, maxOpenMs: 60_000 } } });
    world.configure("dst_1", { retryMaxAttempts: 5 });
    world.behave("dst_1", () => ({ afterMs: 5, reply: answer(503, "busy", "3600") }));
    await world.start("a");
    const event = world.ingest();
    await world.clock.advance(2_000);
    if (why === "the circuit is open")
      for (let count = 0; count < 12; count += 1) {
        world.ingest();
        await world.clock.advance(300);
      }
    // The follow-up of another owner's own first try, whose answer had no Retry-After.
    const copy = { ...firstTry(event, "dst_1", event.receivedAtMs), tryNumber: 2 };
    const value = encodeTask({ ...copy, dueAtMs: world.clock.now() });
    world.store.write([{ topic: "tasks", key: event.endpointId, value }]);
    if (why === "the configuration is away") world.configKind = "unavailable";
    await world.clock.advance(100);
    world.configKind = "sync";
    const retries = () =>
      world.requestsTo("dst_1").filter((one) => one.eventId === event.id && one.attempt === 2);
    await world.clock.advance(3_500_000);
    expect(retries()).toEqual([]);
    await world.clock.advance(600_000);
    expect(retries()).toHaveLength(1);
  },
);

/** Simulation seed 534190: the event's summary would show `dst_1` as pending forever. */
it("an owner that wakes does not fan out anew what another has fanned out meanwhile", async () => {
  const world = new SimWorld({ delivery: { takeoverWaitMs: 500 } });
  const fanouts = () =>
    world.outcomes().flatMap((one) => (one.kind === "fanout" ? [one.destinationIds] : []));
  world.configure("dst_1");
  world.configure("dst_2");
  world.configKind = "async";
  const sleeper = await world.start("sleeper");
  world.ingest();
  // It freezes while it looks up the destinations.
  await world.clock.advance(1);
  void world.store.freeze(sleeper, 10_000, 1_000);
  await world.clock.advance(500);
  world.configure("dst_1", { status: "paused" });
  await world.start("second");
  await world.clock.advance(8_000);
  expect(fanouts()).toEqual([["dst_2"]]);
  await world.clock.advance(20_000);
  expect(fanouts()).toEqual([["dst_2"]]);
});

/** Starts an owner of the partition and kills it without notice. */
async function loseOwner(world: SimWorld): Promise<void> {
  const first = await world.start("first");
  await world.clock.advance(100);
  void world.store.kill(first, 100);
  await world.clock.advance(200);
}

/** Makes the record of a delivered first try, as another owner writes it. */
function endOf(world: SimWorld, event: EventRecord, config: DestinationConfig): NewRecord {
  const nowMs = world.clock.now();
  const end = concludeTry({
    task: firstTry(event, config.id, nowMs),
    config,
    reply: answer(200),
    startedAtMs: nowMs,
    nowMs,
    retryBaseMs: 1_000,
    random: world.random,
  });
  const value = encodeOutcome({ kind: "attempt", ...end });
  return { topic: "attempts", key: event.endpointId, value };
}

it("whom an event was sent to belongs to it, also when the fan-out was lost and it has been paused since", async () => {
  const world = new SimWorld();
  const config = world.configure("dst_1", { status: "paused" });
  world.configure("dst_2");
  const event = world.ingest();
  world.store.write([endOf(world, event, config)]);
  await world.start("second");
  await world.clock.advance(5_000);
  expect(world.seen.map(({ destinationId }) => destinationId)).toEqual(["dst_2"]);
  const fanouts = world.outcomes().filter(({ kind }) => kind === "fanout");
  expect(fanouts).toMatchObject([{ destinationIds: ["dst_2", "dst_1"] }]);
});

it("regression: what was held when the fan-out was lost was delivered after the resume, and did not count as pending until then", async () => {
  const world = new SimWorld();
  world.configure("dst_1", { status: "paused" });
  world.configure("dst_2");
  const event = world.ingest();
  const task = { ...firstTry(event, "dst_1", world.clock.now()), deferrals: 1 };
  const value = encodeHeldTask(task);
  world.store.write([{ topic: "held", key: event.endpointId, partition: 0, value }]);
  await world.start("second");
  await world.clock.advance(5_000);
  const fanouts = world.outcomes().filter(({ kind }) => kind === "fanout");
  expect(fanouts).toMatchObject([{ destinationIds: ["dst_2", "dst_1"] }]);
  world.configure("dst_1", { status: "active" });
  await world.clock.advance(60_000);
  expect(world.seen.map(({ destinationId }) => destinationId)).toEqual(["dst_2", "dst_1"]);
});

describe("a claim", () => {
  it("survives the commit's metadata, and one of an older relay is its owner's name", () => {
    const nothing = { counts: [], incompleteUntilMs: null, waitsUntilMs: null };
    const claims = [
      nothing,
      { ...nothing, waitsUntilMs: 1_700_000_000_000 },
      { ...nothing, counts: [{ partitions: 48, events: 0, tasks: 0 }] },
      { ...nothing, counts: [{ partitions: 48, events: 7, tasks: 0 }] },
      {
        counts: [
          { partitions: 8, events: 0, tasks: 0 },
          { partitions: 48, events: 7, tasks: 12 },
        ],
        incompleteUntilMs: 1_700_000_000_001,
        waitsUntilMs: 1_700_000_000_000,
      },
    ];
    for (const claim of claims)
      expect(decodeClaim(encodeClaim({ ownerId: "a/1", ...claim }))).toEqual({
        ownerId: "a/1",
        ...claim,
      });
    expect(decodeClaim("a/1")).toEqual({ ownerId: "a/1", ...nothing });
    expect(decodeClaim("a/1 waits until 1700000000000")).toEqual({
      ...nothing,
      ownerId: "a/1",
      waitsUntilMs: 1_700_000_000_000,
    });
    expect(decodeClaim("a/1 waits until doomsday").waitsUntilMs).toBeNull();
    // An older version takes what precedes these words for the owner's name.
    const written = encodeClaim({
      ownerId: "a/1",
      ...nothing,
      counts: [{ partitions: 48, events: 0, tasks: 0 }],
    });
    expect(written.split(" waits until ")[0]).toBe("a/1");
  });
});
