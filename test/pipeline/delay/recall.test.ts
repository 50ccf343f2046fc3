import { describe, expect, it } from "vitest";
import { pause } from "../../../src/domain/clock.ts";
import { DELAY_TIERS } from "../../../src/domain/delay-tier.ts";
import { decodeTask } from "../../../src/pipeline/log/task-codec.ts";
import type { DestinationConfig, Lookup } from "../../../src/domain/destination.ts";
import { LogError } from "../../../src/domain/log.ts";
import type { LogRecord } from "../../../src/domain/log.ts";
import { UNLIMITED } from "../../../src/domain/rate-limit.ts";
import { Recall } from "../../../src/pipeline/delay/recall.ts";
import type { RecallPorts } from "../../../src/pipeline/delay/recall.ts";
import type { TierForwarder } from "../../../src/pipeline/delay/tier-forwarder.ts";
import { inLargeBatches } from "../../../src/pipeline/delay/waiting-tasks.ts";
import type { RecalledTasks, WaitingTasks } from "../../../src/pipeline/delay/waiting-tasks.ts";
import { makeSilentLogger } from "../../support/silent-logger.ts";
import { SimClock } from "../../support/sim-clock.ts";
import { answer, FAIL, OK, SimWorld } from "../../support/sim-world.ts";

const HOUR_MS = 3_600_000;

/** Makes what waits at a destination where nothing was put off. */
function waitingAt(endpointId: string): WaitingTasks {
  return {
    slowest: UNLIMITED,
    limitedUntilMs: 0,
    receiverUntilMs: 0,
    receiverSinceMs: Number.POSITIVE_INFINITY,
    endpointId,
    lastOffset: 7,
  };
}

/** Makes a world with two destinations that were tried once and asked for a retry in an hour. */
async function waitingWorld(answersAfterMs = 5) {
  const world = new SimWorld();
  for (const id of ["dst_1", "dst_2"]) {
    world.configure(id);
    world.behave(id, () => ({ afterMs: answersAfterMs, reply: answer(503, "", "3600") }));
  }
  const process = await world.start("first");
  world.ingest();
  await world.clock.advance(1_000);
  const rowsOf = (id: string) =>
    world.attempts().filter(({ destinationId }) => destinationId === id);
  const statusesOf = (id: string) => rowsOf(id).map(({ status }) => status);
  return { world, process, rowsOf, statusesOf };
}

describe("tasks that wait for a destination that is deleted", () => {
  it("regression: end within seconds: they ended when their time came, hours later", async () => {
    const { world, statusesOf } = await waitingWorld();
    world.remove("dst_1");
    await world.clock.advance(5_000);
    expect(statusesOf("dst_1")).toEqual(["failed", "dead"]);
    expect(statusesOf("dst_2")).toEqual(["failed"]);
    await world.clock.advance(2 * HOUR_MS);
    expect(statusesOf("dst_1")).toEqual(["failed", "dead"]);
    expect(statusesOf("dst_2").length).toBeGreaterThan(1);
    expect(world.requestsTo("dst_1")).toHaveLength(1);
    expect(world.errors).toEqual([]);
    expect(world.droppedDuplicates).toBe(0);
  });

  it("end as soon beside a record that cannot be read, which holds nothing up", async () => {
    const { world, statusesOf } = await waitingWorld();
    for (const { topic } of DELAY_TIERS)
      world.store.write([
        { topic, key: "ep_1", partition: 0, value: Buffer.from("of a newer relay") },
      ]);
    // Behind it in the same tier, so that the recall moves it, too.
    world.ingest();
    await world.clock.advance(1_000);
    world.remove("dst_1");
    await world.clock.advance(5_000);
    expect(statusesOf("dst_1")).toEqual(["failed", "failed", "dead", "dead"]);
    await world.clock.advance(2 * HOUR_MS);
    expect(statusesOf("dst_2").length).toBeGreaterThan(2);
    expect(world.unreadable).toEqual(DELAY_TIERS.map(() => "tasks"));
  });

  it("end within minutes once the configuration can be read again, when it could be read by neither look after the deletion", async () => {
    const { world, statusesOf } = await waitingWorld();
    // The first look of the new owner is over.
    await world.clock.advance(60_000);
    world.configKind = "unavailable";
    world.remove("dst_1");
    await world.clock.advance(40_000);
    expect(statusesOf("dst_1")).toEqual(["failed"]);
    world.configKind = "sync";
    await world.clock.advance(120_000);
    expect(statusesOf("dst_1")).toEqual(["failed", "dead"]);
    expect(statusesOf("dst_2")).toEqual(["failed"]);
  });

  it("regression: end within a minute where the deletion was missed, since the feed of changes was away: they ended when their time came, hours later", async () => {
    const { world, statusesOf } = await waitingWorld();
    // The first look of the new owner is over.
    await world.clock.advance(60_000);
    world.tellsChanges = false;
    world.remove("dst_1");
    await world.clock.advance(60_000);
    expect(statusesOf("dst_1")).toEqual(["failed"]);
    world.tellGap();
    await world.clock.advance(5_000);
    expect(statusesOf("dst_1")).toEqual(["failed", "dead"]);
    expect(statusesOf("dst_2")).toEqual(["failed"]);
  });

  it("end within a minute also where a try was in flight at the deletion", async () => {
    const { world, statusesOf } = await waitingWorld(10_000);
    world.remove("dst_1");
    await world.clock.advance(60_000);
    expect(statusesOf("dst_1")).toEqual(["failed", "dead"]);
  });

  it("end once, by the step of their row, when an owner that knows nothing of it finds them again", async () => {
    const { world, process, rowsOf } = await waitingWorld();
    world.remove("dst_1");
    await world.clock.advance(60_000);
    await world.stop(process);
    await world.start("second");
    await world.clock.advance(2 * HOUR_MS);
    const ends = rowsOf("dst_1").filter(({ status }) => status === "dead");
    const steps = ends.map(({ run, tryNumber, deferral }) => `${run}/${tryNumber}/${deferral}`);
    expect(new Set(steps).size).toBe(1);
    expect(world.requestsTo("dst_1")).toHaveLength(1);
  });

  it("regression: end within minutes also if ownership was in doubt at the first look of the new owner: they ended when their time came, hours later", async () => {
    const { world, process, statusesOf } = await waitingWorld();
    await world.stop(process);
    world.remove("dst_1");
    const second = await world.start("second");
    await world.clock.advance(25_000);
    second.inDoubtUntilMs = world.clock.now() + 10_000;
    await world.clock.advance(10_000);
    expect(statusesOf("dst_1")).toEqual(["failed"]);
    await world.clock.advance(120_000);
    expect(statusesOf("dst_1")).toEqual(["failed", "dead"]);
    expect(statusesOf("dst_2")).toEqual(["failed"]);
  });

  it("are asked for by endpoint when that is deleted, and not when it changes", async () => {
    const clock = new SimClock();
    const recalled: string[] = [];
    const deleted = new Set<string>();
    const listeners: Parameters<RecallPorts["destinations"]["onChange"]>[0][] = [];
    const waiting = waitingAt("ep_1");
    const tier = {
      survey: async (of: ReadonlySet<string>) => {
        recalled.push([...of].join(" "));
        return new Map([["dst_1", waiting]]);
      },
      recall: async ({ gone }: RecalledTasks, lastOffset: number) => {
        recalled.push(`${[...gone].join(" ")} to ${lastOffset}`);
        return true;
      },
    } as unknown as TierForwarder;
    const recall = new Recall({
      clock,
      logger: makeSilentLogger(),
      destinations: {
        onChange: (listener) => {
          listeners.push(listener);
          return () => void listeners.pop();
        },
        onGap: () => () => undefined,
        destinationsOf: (id) =>
          deleted.has(id) ? { kind: "missing" } : { kind: "found", value: [] },
        destination: async () => ({ kind: "missing" }),
      },
      partitionOf: () => 0,
      ownedPartitions: () => [0],
      tiersOf: () => [tier],
    });
    recall.start();
    listeners[0]!({ endpointId: "ep_1", destinationId: null });
    await clock.advance(60_000);
    expect(recalled).toEqual([]);
    for (const endpointId of ["ep_1", "ep_2"]) {
      deleted.add(endpointId);
      listeners[0]!({ endpointId, destinationId: null });
    }
    await clock.advance(10_000);
    // Once for both, since it reads everything that waits.
    expect(recalled).toEqual(["ep_1 ep_2", "dst_1 to 7"]);
    recall.stop();
    await clock.advance(60_000);
    expect(recalled).toHaveLength(2);
    expect(listeners).toEqual([]);
  });
});

describe("a change of a destination", () => {
  it("regression: is looked for among what waits only where its limit may have been raised: each new name had all tiers read twice", async () => {
    const clock = new SimClock();
    const config = new SimWorld().configure("dst_1", {
      rateLimitMax: 10,
      rateLimitWindow: "minute",
    });
    let now: Lookup<DestinationConfig> = { kind: "found", value: config };
    let looks = 0;
    let change: Parameters<RecallPorts["destinations"]["onChange"]>[0] = () => undefined;
    const tier = {
      survey: async () => {
        looks += 1;
        return new Map();
      },
    } as unknown as TierForwarder;
    const recall = new Recall({
      clock,
      logger: makeSilentLogger(),
      destinations: {
        onChange: (listener) => {
          change = listener;
          return () => undefined;
        },
        onGap: () => () => undefined,
        destinationsOf: () => ({ kind: "found", value: [] }),
        destination: async () => now,
      },
      partitionOf: () => 0,
      ownedPartitions: () => [0],
      tiersOf: () => [tier],
    });
    recall.start();
    const looksAfter = async (changes: Partial<DestinationConfig>): Promise<number> => {
      const before = looks;
      now = { kind: "found", value: { ...config, ...changes } };
      change({ endpointId: "ep_1", destinationId: "dst_1" });
      await clock.advance(60_000);
      return looks - before;
    };
    // What its limit was before is unknown.
    expect(await looksAfter({})).toBe(2);
    expect(await looksAfter({ retryMaxAttempts: 9 })).toBe(0);
    expect(await looksAfter({ rateLimitMax: 5 })).toBe(0);
    expect(await looksAfter({ rateLimitMax: 20, status: "paused" })).toBe(0);
    expect(await looksAfter({ rateLimitMax: 20 })).toBe(2);
    expect(await looksAfter({ rateLimitMax: 600, rateLimitWindow: "hour" })).toBe(0);
    expect(await looksAfter({ rateLimitMax: null, rateLimitWindow: null })).toBe(2);
    now = { kind: "missing" };
    change({ endpointId: "ep_1", destinationId: "dst_1" });
    await clock.advance(60_000);
    expect(looks).toBe(8);
    recall.stop();
  });
});

describe("a look at what waits", () => {
  /** Makes a tier that takes this long to read and to recall, with a task of each deleted endpoint. */
  function lookingAt(readMs: number, recallMs: number, failure: Error | null = null) {
    const clock = new SimClock();
    const told: string[] = [];
    const looks: number[] = [];
    let change: Parameters<RecallPorts["destinations"]["onChange"]>[0] = () => undefined;
    const tier = {
      survey: async (of: ReadonlySet<string>) => {
        looks.push(clock.now());
        await pause(clock, readMs);
        if (failure !== null) throw failure;
        return new Map(Array.from(of, (endpointId) => [endpointId, waitingAt(endpointId)]));
      },
      recall: async () => {
        await pause(clock, recallMs);
        return true;
      },
    } as unknown as TierForwarder;
    new Recall({
      clock,
      logger: makeSilentLogger((_, message) => told.push(message)),
      destinations: {
        onChange: (listener) => {
          change = listener;
          return () => undefined;
        },
        onGap: () => () => undefined,
        destinationsOf: () => ({ kind: "missing" }),
        destination: () => Promise.resolve({ kind: "missing" }),
      },
      partitionOf: () => 0,
      ownedPartitions: () => [0],
      tiersOf: () => [tier],
    }).start();
    return {
      clock,
      looks,
      told,
      remove: (endpointId: string) => change({ endpointId, destinationId: null }),
    };
  }

  it("regression: does not wait for as long again as a recall before it took, nine times", async () => {
    const { clock, looks, remove } = lookingAt(10, 20_000);
    remove("ep_1");
    await clock.advance(15_000);
    remove("ep_2");
    await clock.advance(15_000);
    expect(looks).toHaveLength(2);
  });

  it.each([
    ["log_closed", []],
    ["log_unavailable", ["delay.recall_failed"]],
  ] as const)(
    "regression: that ends with %s warns of %j: one whose partition had moved warned, with a stack",
    async (code, warnings) => {
      const { clock, remove, told } = lookingAt(10, 10, new LogError(code, "not read"));
      remove("ep_1");
      await clock.advance(5_000);
      expect(told).toEqual(warnings);
    },
  );

  it("waits for half a minute at most after one that read for long", async () => {
    const { clock, looks, remove } = lookingAt(20_000, 10);
    remove("ep_1");
    await clock.advance(15_000);
    remove("ep_2");
    await clock.advance(30_000);
    expect(looks).toHaveLength(1);
    await clock.advance(10_000);
    expect(looks).toHaveLength(2);
  });
});

/** Makes a world with two destinations of ten a minute, for which a hundred events came: the last wait for ten minutes. */
async function limitedWorld() {
  const world = new SimWorld();
  const limit = { rateLimitMax: 10, rateLimitWindow: "minute" } as const;
  for (const id of ["dst_1", "dst_2"]) world.configure(id, limit);
  const process = await world.start("first");
  for (let count = 0; count < 100; count += 1) world.ingest();
  await world.clock.advance(5_000);
  const requestsIn = async (waitMs: number): Promise<number[]> => {
    await world.clock.advance(waitMs);
    return ["dst_1", "dst_2"].map((id) => world.requestsTo(id).length);
  };
  return { world, process, requestsIn };
}

describe("tasks that a rate limit put off", () => {
  it("regression: go on within a minute where the change of the limit was missed: they kept the times of the old one, for hours", async () => {
    const { world, requestsIn } = await limitedWorld();
    // The first look of the new owner is over.
    expect(await requestsIn(60_000)).toEqual([20, 20]);
    world.tellsChanges = false;
    world.configure("dst_1", { rateLimitMax: null, rateLimitWindow: null });
    world.tellGap();
    expect(await requestsIn(20_000)).toEqual([100, 20]);
  });

  it.each([
    ["is raised", 1_000],
    ["is removed", null],
  ])(
    "regression: go on within a minute when the limit %s: they kept the times of the old one, for hours",
    async (_, max) => {
      const { world, requestsIn } = await limitedWorld();
      expect(await requestsIn(0)).toEqual([10, 10]);
      world.configure("dst_1", {
        rateLimitMax: max,
        rateLimitWindow: max === null ? null : "minute",
      });
      expect(await requestsIn(55_000)).toEqual([100, 10]);
      expect(await requestsIn(2 * HOUR_MS)).toEqual([100, 100]);
      expect(world.errors).toEqual([]);
    },
  );

  it.each(["hour", "day"] as const)(
    "regression: go on within a minute when the limit of a window of one %s is raised: those of its next window kept their times",
    async (rateLimitWindow) => {
      const world = new SimWorld();
      world.configure("dst_1", { rateLimitMax: 10, rateLimitWindow });
      await world.start("first");
      for (let count = 0; count < 18; count += 1) world.ingest();
      await world.clock.advance(5_000);
      expect(world.requestsTo("dst_1")).toHaveLength(10);
      world.configure("dst_1", { rateLimitMax: 1_000 });
      await world.clock.advance(55_000);
      expect(world.requestsTo("dst_1")).toHaveLength(18);
    },
  );

  it.each([
    ["60 an hour become one a minute", 60, "hour", 1, "minute", 50],
    ["500 a day become one a minute", 500, "day", 1, "minute", 50],
    ["500 a day become 20 an hour", 500, "day", 20, "hour", 70],
  ] as const)(
    "regression: go on within a minute when %s: they kept the times of the long window, since no more an hour were allowed",
    async (_name, beforeMax, beforeWindow, max, window, afterMinutes) => {
      const world = new SimWorld();
      world.configure("dst_1", { rateLimitMax: beforeMax, rateLimitWindow: beforeWindow });
      await world.start("first");
      for (let count = 0; count < beforeMax + 5; count += 1) world.ingest();
      await world.clock.advance(afterMinutes * 60_000);
      expect(world.requestsTo("dst_1")).toHaveLength(beforeMax);
      world.configure("dst_1", { rateLimitMax: max, rateLimitWindow: window });
      await world.clock.advance(65_000);
      expect(world.requestsTo("dst_1").length).toBeGreaterThan(beforeMax);
      expect(world.errors).toEqual([]);
    },
  );

  it("go on at the pace of the new limit", async () => {
    const { world, requestsIn } = await limitedWorld();
    world.configure("dst_1", { rateLimitMax: 20 });
    const [afterOne] = await requestsIn(50_000);
    expect(afterOne).toBeLessThanOrEqual(20);
    const [afterFour] = await requestsIn(180_000);
    expect(afterFour).toBeGreaterThanOrEqual(80);
    expect(afterFour).toBeLessThanOrEqual(90);
    expect(await requestsIn(60_000)).toEqual([100, 50]);
  });

  it("keep their slots when something else of the destination changes", async () => {
    const { world, requestsIn } = await limitedWorld();
    const putOff = () => world.deferrals.filter((reason) => reason === "rate_limit").length;
    const before = putOff();
    world.configure("dst_1", { retryMaxAttempts: 7 });
    await requestsIn(50_000);
    expect(putOff()).toBe(before);
    expect(await requestsIn(10 * 60_000)).toEqual([100, 100]);
  });

  it("are sent once, also by an owner that knows nothing of it", async () => {
    const { world, process, requestsIn } = await limitedWorld();
    world.configure("dst_1", { rateLimitMax: null, rateLimitWindow: null });
    expect(await requestsIn(55_000)).toEqual([100, 10]);
    await world.stop(process);
    await world.start("second");
    expect(await requestsIn(2 * HOUR_MS)).toEqual([100, 100]);
  });

  it.each([0, 600])(
    "regression: go on also where the limit is removed %i ms before a crash: they kept the times of the old one",
    async (beforeMs) => {
      const { world, process, requestsIn } = await limitedWorld();
      world.store.faults = { ...world.store.faults, appendMs: () => 100 };
      world.configure("dst_1", { rateLimitMax: null, rateLimitWindow: null });
      await world.clock.advance(beforeMs);
      void world.store.kill(process, 0);
      await world.start("second");
      expect((await requestsIn(60_000))[0]).toBe(100);
      expect(await requestsIn(2 * HOUR_MS)).toEqual([100, 100]);
    },
  );

  it("regression: go on also where the log could not be read at first: they kept the times of the old limit", async () => {
    const { world, process, requestsIn } = await limitedWorld();
    world.configure("dst_1", { rateLimitMax: null, rateLimitWindow: null });
    process.readsFail = true;
    expect(await requestsIn(40_000)).toEqual([10, 10]);
    process.readsFail = false;
    expect((await requestsIn(120_000))[0]).toBe(100);
  });

  it("regression: go on many in one append: two waits for the disk each took minutes where bodies are large", async () => {
    const { world, requestsIn } = await limitedWorld();
    let appends = 0;
    world.onAppend = (records) => {
      const isRecall = (value: Uint8Array) => decodeTask(value).deferrals === 2;
      if (records.some(({ topic, value }) => topic === "tasks" && isRecall(value))) appends += 1;
    };
    world.configure("dst_1", { rateLimitMax: null, rateLimitWindow: null });
    expect((await requestsIn(20_000))[0]).toBe(100);
    const used = DELAY_TIERS.filter(({ topic }) => world.store.records(topic, 0).length > 0);
    expect(appends).toBeGreaterThan(0);
    expect(appends).toBeLessThanOrEqual(used.length);
  });

  it("do not take retries with them, which keep their time", async () => {
    const { world, requestsIn } = await limitedWorld();
    world.behave("dst_1", () => ({ afterMs: 5, reply: answer(503, "", "3600") }));
    world.configure("dst_1", { rateLimitMax: 1_000 });
    expect(await requestsIn(55_000)).toEqual([100, 10]);
    world.configure("dst_1", { rateLimitMax: null, rateLimitWindow: null });
    const [afterTwo] = await requestsIn(120_000);
    expect(afterTwo).toBe(100);
  });
});

describe("tasks that a receiver put off", () => {
  const LAST = 30;

  /** Makes a world whose receiver has failed for so long, with an event each second; the last of them were never tried. */
  async function failingWorld(seconds = 600) {
    const world = new SimWorld();
    world.configure("dst_1");
    world.behave("dst_1", FAIL);
    const process = await world.start("first");
    let last: string[] = [];
    for (let second = 0; second < seconds; second += 1) {
      last = [...last.slice(1 - LAST), world.ingest().id];
      await world.clock.advance(1_000);
    }
    world.behave("dst_1", OK);
    const rows = () => world.attempts().filter(({ eventId }) => last.includes(eventId));
    expect(rows()).toEqual([]);
    return {
      world,
      process,
      delivered: () => rows().filter(({ status }) => status === "delivered").length,
    };
  }

  it("regression: go on within a minute when the destination is given another receiver: they waited for up to five", async () => {
    const { world, delivered } = await failingWorld();
    world.configure("dst_1", { receiverUrl: "https://other.example.com/hook" });
    await world.clock.advance(60_000);
    expect(delivered()).toBe(LAST);
    expect(world.errors).toEqual([]);
  });

  it("regression: go on within a minute when the destination is resumed: they waited for up to five", async () => {
    const { world, delivered } = await failingWorld();
    world.configure("dst_1", { status: "paused" });
    await world.clock.advance(1_000);
    world.configure("dst_1", { status: "active" });
    await world.clock.advance(60_000);
    expect(delivered()).toBe(LAST);
    expect(world.errors).toEqual([]);
  });

  it("regression: go on soon also where the process ends right after the resume: with the next one they waited for up to five minutes", async () => {
    const { world, process, delivered } = await failingWorld(1_000);
    world.configure("dst_1", { status: "paused" });
    await world.clock.advance(1_000);
    world.configure("dst_1", { status: "active" });
    await world.clock.advance(100);
    await world.stop(process);
    await world.start("second");
    await world.clock.advance(60_000);
    expect(delivered()).toBe(LAST);
    expect(world.errors).toEqual([]);
  });

  it("wait on with the next process where nothing has changed", async () => {
    const { world, process, delivered } = await failingWorld(1_000);
    await world.stop(process);
    await world.start("second");
    await world.clock.advance(60_000);
    expect(delivered()).toBeLessThan(LAST);
  });

  it("wait on when something else of the destination changes, since its receiver is the same", async () => {
    const { world, delivered } = await failingWorld();
    world.behave("dst_1", FAIL);
    world.configure("dst_1", { retryMaxAttempts: 6 });
    await world.clock.advance(60_000);
    const before = world.deferrals.length;
    world.configure("dst_1", { retryMaxAttempts: 7 });
    await world.clock.advance(20_000);
    expect(world.deferrals.length - before).toBeLessThan(LAST);
    expect(delivered()).toBe(0);
  });
});

it("what is read of a tier in small pieces is moved in large ones, each record once and in order", async () => {
  const record = (offset: number, sizeBytes: number) =>
    ({ offset, value: new Uint8Array(sizeBytes) }) as unknown as LogRecord;
  async function* pieces() {
    yield [record(0, 60)];
    yield [record(1, 30), record(2, 10)];
    yield [record(3, 99)];
    yield [record(4, 300)];
    yield [record(5, 1)];
  }
  const offsets: number[][] = [];
  for await (const batch of inLargeBatches(pieces(), 100))
    offsets.push(batch.map(({ offset }) => offset));
  expect(offsets).toEqual([[0, 1, 2], [3, 4], [5]]);
});
