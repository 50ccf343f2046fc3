import { describe, expect, it } from "vitest";
import { DELAY_TIERS, topicForDelay } from "../../../src/domain/delay-tier.ts";
import type { DeliveryTask } from "../../../src/domain/delivery-task.ts";
import { makeDurableAppender } from "../../../src/pipeline/attempts/durable-appender.ts";
import { makeDelayForwarder } from "../../../src/pipeline/delay/make-delay-forwarder.ts";
import { TierForwarder } from "../../../src/pipeline/delay/tier-forwarder.ts";
import type { ConsumerOptions, OwnedPartition, Urgency } from "../../../src/domain/log.ts";
import { firstTry } from "../../../src/domain/delivery-task.ts";
import { decodeTask, encodeTask } from "../../../src/pipeline/log/task-codec.ts";
import { collectGarbage } from "../../support/collect-garbage.ts";
import { MemoryLogStore, type MemoryProcess } from "../../support/memory-log.ts";
import { NO_CHANGES } from "../../support/no-changes.ts";
import { makeSilentLogger } from "../../support/silent-logger.ts";
import { SimClock, seededRandom } from "../../support/sim-clock.ts";
import { SimWorld } from "../../support/sim-world.ts";

const events = new SimWorld();

/** Makes a partition that stays owned; `read` yields what its log holds. */
function ownedPartition(endOffset: number, read: OwnedPartition["read"]): OwnedPartition {
  return {
    partition: 0,
    partitions: 1,
    owned: () => true,
    exclusive: () => true,
    committed: () => null,
    endOffset: () => Promise.resolve(endOffset),
    read,
    commit: () => Promise.resolve(),
  };
}

function makeTiers(partitions = 1) {
  const clock = new SimClock();
  const store = new MemoryLogStore(partitions, clock, seededRandom(1));
  const batches: number[] = [];
  const start = async (name: string) => {
    const process: MemoryProcess = { name, alive: true };
    const log = store.open(process);
    const logger = makeSilentLogger();
    const forwarder = makeDelayForwarder({
      log,
      clock: {
        now: () => clock.now(),
        monotonic: () => clock.monotonic(),
        schedule: (delayMs, callback) =>
          clock.schedule(delayMs, () => (process.alive ? callback() : undefined)),
      },
      logger,
      appender: makeDurableAppender({ log, clock, logger }),
      metrics: { forwarded: (_, count) => batches.push(count), lateness: () => undefined },
      destinations: NO_CHANGES,
    });
    await forwarder.start();
    return { process, forwarder };
  };
  const put = (delayMs: number, bodyBytes = 10): DeliveryTask => {
    const event = events.makeEvent({ body: Buffer.alloc(bodyBytes) });
    const task = {
      ...firstTry(event, "dst_1", event.receivedAtMs),
      dueAtMs: clock.now() + delayMs,
    };
    const value = encodeTask(task);
    store.write([{ topic: topicForDelay(delayMs, value.length), key: "ep_1", value }]);
    return task;
  };
  /** Returns how early each task came to `tasks`, by event. */
  const arrivals = (): Map<string, number> =>
    new Map(
      store.all("tasks").map((record) => {
        const task = decodeTask(record.value);
        return [task.event.id, task.dueAtMs - record.appendedAtMs];
      }),
    );
  return { clock, store, start, put, arrivals, batches };
}

describe("delay tiers", () => {
  it.each([1_500, 3_000, 10_000, 59_000, 3_600_000, 21_600_000, 86_400_000])(
    "a task due in %i ms arrives at most 1.5 s early and not late",
    async (delayMs) => {
      const tiers = makeTiers();
      await tiers.start("a");
      const task = tiers.put(delayMs);
      await tiers.clock.advance(delayMs + 2_000);
      const earlyMs = tiers.arrivals().get(task.event.id)!;
      expect(earlyMs).toBeLessThan(1_500);
      expect(earlyMs).toBeGreaterThan(-500);
      expect(tiers.store.all("tasks")).toHaveLength(1);
    },
  );

  it("tasks that leave soon after one another go on in one append: each had one of its own, and a commit", async () => {
    const tiers = makeTiers();
    await tiers.start("a");
    for (let count = 0; count < 80; count += 1) {
      tiers.put(2_400);
      await tiers.clock.advance(25);
    }
    await tiers.clock.advance(3_000);
    const earlyMs = [...tiers.arrivals().values()];
    expect(earlyMs).toHaveLength(80);
    // Lanes take what is due within two seconds.
    expect(Math.max(...earlyMs)).toBeLessThan(1_750);
    expect(Math.min(...earlyMs)).toBeGreaterThan(0);
    expect(tiers.batches.reduce((sum, count) => sum + count, 0)).toBe(80);
    expect(tiers.batches.length).toBeLessThan(15);
  });

  it("a tier that is late waits for nobody: each of its large tasks, one at a time, would have waited 50 ms", async () => {
    const clock = new SimClock();
    const urgencies: (Urgency | undefined)[] = [];
    const forwarder = new TierForwarder(
      {
        appender: {
          append: async (_records, _stillNeeded, urgency) => {
            urgencies.push(urgency);
            return [];
          },
        },
        clock,
        logger: makeSilentLogger(),
        metrics: { forwarded: () => undefined, lateness: () => undefined },
      },
      ownedPartition(2, () => expect.fail("nothing is read")),
      "delay-1s",
      1_000,
    );
    for (const lateMs of [0, 3_000]) {
      const event = events.makeEvent({ body: Buffer.alloc(10) });
      const task = {
        ...firstTry(event, "dst_1", event.receivedAtMs),
        dueAtMs: clock.now() - lateMs,
      };
      const at = {
        topic: "delay-1s",
        partition: 0,
        offset: urgencies.length,
        key: "ep_1",
      } as const;
      await forwarder.forward([
        { ...at, value: encodeTask(task), appendedAtMs: task.dueAtMs - 1_000 },
      ]);
    }
    expect(urgencies).toEqual(["soon", "now"]);
  });

  it("a commit that fails is repeated though nothing follows: a restart publishes nothing twice", async () => {
    const tiers = makeTiers();
    await tiers.start("a");
    let failures = 3;
    tiers.store.faults = {
      appendMs: () => 1,
      // A lost append is retried by the appender; a commit must be retried here.
      appendFate: () => (tiers.store.all("tasks").length > 0 && failures-- > 0 ? "lost" : "ok"),
      torn: (slots) => new Set(slots),
    };
    tiers.put(3_000);
    await tiers.clock.advance(10_000);
    expect(tiers.store.committed("delay", "delay-1s", 0)?.offset).toBe(
      tiers.store.endOffset("delay-1s", 0),
    );
    expect(failures).toBeLessThan(0);
    await tiers.start("b");
    await tiers.store.rotate("delay", false);
    await tiers.clock.advance(10_000);
    expect(tiers.store.all("tasks")).toHaveLength(1);
  });

  it.each([10, 200_000])(
    "a session in doubt for a while loses nothing (tasks of %i bytes)",
    async (bodyBytes) => {
      const tiers = makeTiers();
      const { process } = await tiers.start("a");
      const tasks = Array.from({ length: 5 }, (_, index) =>
        tiers.put(2_000 + index * 100, bodyBytes),
      );
      await tiers.clock.advance(500);
      process.inDoubtUntilMs = tiers.clock.now() + 5_000;
      await tiers.clock.advance(4_000);
      // Taken in while the ownership is in doubt, and after.
      tasks.push(tiers.put(1_500, bodyBytes));
      await tiers.clock.advance(2_000);
      tasks.push(tiers.put(1_500, bodyBytes));
      await tiers.clock.advance(5_000);
      expect([...tiers.arrivals().keys()].toSorted()).toEqual(
        tasks.map(({ event }) => event.id).toSorted(),
      );
      expect(tiers.store.committed("delay", "delay-1s", 0)?.offset).toBe(
        tiers.store.endOffset("delay-1s", 0),
      );
    },
  );

  it("a repeated commit does not overwrite the one that came after it", async () => {
    for (let seed = 1; seed <= 20; seed += 1) {
      const tiers = makeTiers();
      const random = seededRandom(seed);
      await tiers.start("a");
      tiers.store.faults = {
        appendMs: () => random() * 600,
        appendFate: () => (random() < 0.4 ? "lost" : "ok"),
        torn: (slots) => new Set(slots),
      };
      for (let count = 0; count < 20; count += 1) {
        tiers.put(1_500);
        await tiers.clock.advance(random() * 700);
      }
      await tiers.clock.advance(60_000);
      const committed = tiers.store.committed("delay", "delay-1s", 0)?.offset;
      expect(committed, `seed ${seed}`).toBe(tiers.store.endOffset("delay-1s", 0));
    }
  });

  it("large tasks are read again when they are due instead of waiting in memory", async () => {
    const tiers = makeTiers();
    await tiers.start("a");
    const tasks = Array.from({ length: 5 }, () => tiers.put(16_000, 200_000));
    await tiers.clock.advance(18_000);
    expect(tiers.arrivals().size).toBe(tasks.length);
  });

  it("of what is read again only what was handed over goes on: the log reads on behind it, and hands the rest over by itself", async () => {
    const clock = new SimClock();
    const event = events.makeEvent({ body: Buffer.alloc(200_000) });
    const dueAtMs = clock.now() + 3_600_000;
    const value = encodeTask({ ...firstTry(event, "dst_1", event.receivedAtMs), dueAtMs });
    const appendedAtMs = clock.now();
    const records = [0, 1, 2].map(
      (offset) =>
        ({ topic: "delay-1h", partition: 0, offset, key: "ep_1", value, appendedAtMs }) as const,
    );
    const partition = ownedPartition(3, async function* () {
      yield records;
    });
    let moved = 0;
    const append = async (all: readonly unknown[]) => {
      moved += all.length;
      return [];
    };
    const metrics = { forwarded: () => undefined, lateness: () => undefined };
    const ports = { appender: { append }, clock, logger: makeSilentLogger(), metrics };
    const tier = new TierForwarder(ports, partition, "delay-1h", 3_600_000);
    const forwarded = tier.forward(records.slice(0, 1));
    await clock.advance(3_600_000);
    await forwarded;
    expect(moved).toBe(1);
  });

  it("a large task that waits for hours is not in memory meanwhile: one for each tier and partition filled it", async () => {
    const clock = new SimClock();
    const event = events.makeEvent({ body: Buffer.alloc(1_000_000) });
    const dueAtMs = clock.now() + 7_200_000;
    const task = { ...firstTry(event, "dst_1", event.receivedAtMs), dueAtMs };
    const partition = ownedPartition(1, async function* () {});
    const logger = makeSilentLogger();
    const appender = { append: () => Promise.resolve(null) };
    const metrics = { forwarded: () => undefined, lateness: () => undefined };
    const ports = { appender, clock, logger, metrics };
    const tier = new TierForwarder(ports, partition, "delay-1h", 3_600_000);
    const handOver = (): Uint8Array => {
      const value = encodeTask(task);
      const at = { topic: "delay-1h", partition: 0, offset: 0, key: "ep_1" } as const;
      void tier.forward([{ ...at, value, appendedAtMs: clock.now() }]);
      return value;
    };
    const value = new WeakRef(handOver());
    await new Promise((resolve) => setImmediate(resolve));
    collectGarbage();
    expect(value.deref()).toBeUndefined();
    await tier.close();
  });

  it("nothing is lost when the forwarder dies at any moment, and copies are at most those underway", async () => {
    const tiers = makeTiers();
    const tasks = Array.from({ length: 200 }, (_, index) => tiers.put(1_500 + index * 200));
    for (let round = 0; round < 20; round += 1) {
      const { process } = await tiers.start(`p${round}`);
      await tiers.clock.advance(1_900 + round * 37);
      void tiers.store.kill(process, 10);
      await tiers.clock.advance(50);
    }
    await tiers.start("last");
    await tiers.clock.advance(120_000);
    expect(tiers.arrivals().size).toBe(tasks.length);
    expect(tiers.store.all("tasks").length).toBeLessThan(tasks.length + 60);
  });

  it("tasks that are put off after the clock was set back do not wait behind those from before", async () => {
    const tiers = makeTiers();
    await tiers.start("a");
    const before = [2_000, 10_000, 30_000, 120_000].map((delayMs) => tiers.put(delayMs));
    await tiers.clock.advance(500);
    tiers.clock.setBy(-3_600_000);
    const after = [2_000, 10_000, 30_000, 120_000].map((delayMs) => tiers.put(delayMs));
    await tiers.clock.advance(122_000);
    const arrivals = tiers.arrivals();
    expect([...arrivals.keys()].toSorted()).toEqual(after.map(({ event }) => event.id).toSorted());
    for (const earlyMs of arrivals.values()) {
      expect(earlyMs).toBeLessThan(1_500);
      expect(earlyMs).toBeGreaterThan(-1_000);
    }
    // By the wall clock they are due at their original times.
    await tiers.clock.advance(3_600_000);
    for (const { event } of before) expect(tiers.arrivals().get(event.id)).toBeLessThan(1_500);
    expect(tiers.arrivals().size).toBe(before.length + after.length);
  });

  it("a log whose clock is an hour ahead lets tasks go on in time, and does not turn them round and round", async () => {
    const tiers = makeTiers();
    tiers.store.stampedAheadMs = 3_600_000;
    await tiers.start("a");
    const { dueAtMs } = tiers.put(600_000);
    await tiers.clock.until(() => tiers.arrivals().size > 0, 602_000);
    expect(dueAtMs - tiers.clock.now()).toBeLessThan(1_500);
    const hops = DELAY_TIERS.reduce((sum, { topic }) => sum + tiers.store.all(topic).length, 0);
    expect(hops).toBeLessThan(1_000);
  });

  it.each([10, 200_000])(
    "regression: a task of %d bytes that is overdue when the machine wakes up goes on within a minute: it waited for the rest of a timer that had stood still",
    async (bodyBytes) => {
      const tiers = makeTiers();
      await tiers.start("a");
      const hour = 3_600_000;
      const task = tiers.put(3 * hour, bodyBytes);
      await tiers.clock.advance(1_000);
      tiers.clock.setBy(3 * hour);
      await tiers.clock.advance(60_000);
      expect([...tiers.arrivals().keys()]).toEqual([task.event.id]);
    },
  );

  it("stops within its time while the head of a tier is hours away", async () => {
    const tiers = makeTiers();
    const { forwarder } = await tiers.start("a");
    tiers.put(14_400_000);
    await tiers.clock.advance(1_000);
    let stopped = false;
    void Promise.resolve(forwarder[Symbol.asyncDispose]()).then(() => {
      stopped = true;
    });
    await tiers.clock.advance(100);
    expect(stopped).toBe(true);
  });

  it("ends its consumer though a large task could not be read again shortly before", async () => {
    const clock = new SimClock();
    const event = events.makeEvent({ body: Buffer.alloc(200_000) });
    const dueAtMs = clock.now() + 1_000;
    const value = encodeTask({ ...firstTry(event, "dst_1", event.receivedAtMs), dueAtMs });
    const at = { topic: "delay-1s", partition: 0, offset: 0, key: "ep_1" } as const;
    // oxlint-disable-next-line require-yield -- it is away
    const partition = ownedPartition(1, async function* () {
      throw new Error("the log is away");
    });
    const consumed: ConsumerOptions[] = [];
    let isEnded = false;
    const forwarder = makeDelayForwarder({
      log: {
        partitions: 1,
        learnPartitions: async () => undefined,
        writesWhole: true,
        append: () => Promise.resolve([]),
        async consume(options) {
          consumed.push(options);
          await options.onAssigned(partition);
          const end = async (): Promise<void> => {
            isEnded = true;
          };
          return { lag: () => Promise.resolve(new Map()), [Symbol.asyncDispose]: end };
        },
        [Symbol.asyncDispose]: () => Promise.resolve(),
      },
      appender: { append: () => Promise.resolve([]) },
      clock,
      logger: makeSilentLogger(),
      metrics: { forwarded: () => undefined, lateness: () => undefined },
      destinations: NO_CHANGES,
    });
    await forwarder.start();
    const records = [{ ...at, value, appendedAtMs: clock.now() }];
    const handedOver = consumed[0]!.onRecords(partition, "delay-1s", records);
    const refused = expect(handedOver).rejects.toThrow("the log is away");
    await clock.advance(1_000);
    await refused;
    await forwarder[Symbol.asyncDispose]();
    expect(isEnded).toBe(true);
  });
});
