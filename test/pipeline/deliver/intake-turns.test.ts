import { describe, expect, it, vi } from "vitest";
import type { DeliveryTask } from "../../../src/domain/delivery-task.ts";
import { IntakeTurns } from "../../../src/pipeline/deliver/bounds/intake-turns.ts";
import { PartitionIntake } from "../../../src/pipeline/deliver/partition/partition-intake.ts";
import { beforeRouting } from "../../support/before-routing.ts";
import { SimWorld } from "../../support/sim-world.ts";

const OPEN = (): boolean => true;

function tasks(names: string): DeliveryTask[] {
  return names.split("").map((destinationId) => ({ destinationId }) as DeliveryTask);
}

/** Turns that the test makes itself, and what is taken in each. */
function makeTurns(turnMs = 0) {
  const world = { nowMs: 0, taken: "", scheduled: [] as (() => void)[] };
  const clock = {
    monotonic: () => world.nowMs,
    schedule: (_delayMs: number, callback: () => void) => {
      world.scheduled.push(callback);
      return () => undefined;
    },
  };
  const turns = new IntakeTurns({ turnItems: 3, turnMs }, clock);
  const take = ({ destinationId }: DeliveryTask): void => {
    world.taken += destinationId;
  };
  /** Makes the next turn; returns what was taken in it. */
  const next = (): string => {
    expect(world.scheduled).toHaveLength(1);
    world.taken = "";
    world.scheduled.shift()!();
    return world.taken;
  };
  return { world, turns, take, next };
}

/** Counts the tries that are routed in each turn in which any is. */
function countInTurns(world: SimWorld) {
  const counts: number[] = [0];
  const stopCounting = beforeRouting(() => {
    // Whatever is scheduled now comes between this turn and the next.
    if (counts.at(-1) === 0) world.clock.schedule(0, () => counts.push(0));
    counts[counts.length - 1]! += 1;
  });
  return { stopCounting, inEach: () => counts.filter((count) => count > 0) };
}

describe("tasks taken in turns", () => {
  it("are taken in order, a few in each", async () => {
    const { world, turns, take, next } = makeTurns();
    const all = turns.each(tasks("abcdefg"), take, OPEN);
    expect(world.taken).toBe("");
    expect([next(), next(), next()]).toEqual(["abc", "def", "g"]);
    await all;
    expect(world.scheduled).toEqual([]);
  });

  it("of several events are taken one after the other of each", async () => {
    const { turns, take, next } = makeTurns();
    const all = [turns.each(tasks("abcdef"), take, OPEN), turns.each(tasks("12"), take, OPEN)];
    expect([next(), next()]).toEqual(["a1b", "2c"]);
    await all[1];
    const later = turns.each(tasks("3"), take, OPEN);
    expect([next(), next()]).toEqual(["d3e", "f"]);
    await Promise.all([...all, later]);
  });

  it("go on in one turn for as long as it may last", async () => {
    const { world, turns, next } = makeTurns(5);
    const slow = ({ destinationId }: DeliveryTask): void => {
      world.taken += destinationId;
      world.nowMs += 1;
    };
    const all = turns.each(tasks("abcdefg"), slow, OPEN);
    expect([next(), next()]).toEqual(["abcde", "fg"]);
    await all;
  });

  it("are taken no more once they are not wanted, or one could not be taken", async () => {
    const { world, turns, take, next } = makeTurns();
    let isWanted = true;
    const unwanted = turns.each(tasks("abcdef"), take, () => isWanted);
    expect(next()).toBe("abc");
    isWanted = false;
    expect(next()).toBe("");
    await unwanted;
    const failed = turns.each(
      tasks("xyz"),
      (task) => {
        take(task);
        if (task.destinationId === "y") throw new Error("a bug");
      },
      OPEN,
    );
    expect(next()).toBe("xy");
    await expect(failed).rejects.toThrow("a bug");
    expect(world.scheduled).toEqual([]);
  });
});

describe("an event with many destinations", () => {
  function makeWideWorld(destinations: number): SimWorld {
    const world = new SimWorld({ delivery: { maxTasksAtOnce: 4, turnItems: 2, turnMs: 0 } });
    for (let index = 0; index < destinations; index += 1) world.configure(`dst_${index}`);
    return world;
  }

  it("is delivered to each of them once, and what came behind it as well", async () => {
    const world = makeWideWorld(25);
    await world.start();
    const events = [world.ingest(), world.ingest(), world.ingest()];
    await world.clock.advance(2_000);
    expect(world.seen).toHaveLength(75);
    for (const { id } of events) {
      const sentTo = world.seen.filter(({ eventId }) => eventId === id);
      expect(new Set(sentTo.map(({ destinationId }) => destinationId)).size).toBe(25);
    }
    expect(world.store.committed("delivery", "events", 0)?.offset).toBe(3);
  });

  it("lets other work be done before all of its tries have begun: one to thousands kept everybody waiting", async () => {
    const world = makeWideWorld(25);
    await world.start();
    const { stopCounting, inEach } = countInTurns(world);
    world.ingest();
    await world.clock.advance(1_000);
    stopCounting();
    expect(world.seen).toHaveLength(25);
    expect(inEach()).toEqual([...Array.from({ length: 12 }, () => 2), 1]);
  });

  it("keeps what comes behind it in the log, not in memory", async () => {
    const world = makeWideWorld(25);
    await world.start();
    const taken = vi.spyOn(PartitionIntake.prototype, "take");
    const takenAt: number[] = [];
    const stopLooking = beforeRouting(() => {
      takenAt.push(taken.mock.calls.length);
      // While the first is taken in, others come.
      if (takenAt.length < 11) world.ingest();
    });
    world.ingest();
    await world.clock.advance(2_000);
    stopLooking();
    taken.mockRestore();
    expect(takenAt.slice(0, 25)).toEqual(Array.from({ length: 25 }, () => 1));
    expect(world.seen).toHaveLength(11 * 25);
    expect(world.errors).toEqual([]);
  });

  it("that cannot be routed to one of them is left to the next owner, and what came behind it goes on", async () => {
    const world = makeWideWorld(6);
    const first = await world.start();
    await world.clock.advance(500);
    const mend = beforeRouting((task) => {
      if (task.destinationId === "dst_3" && world.errors.length === 0) throw new Error("a bug");
    });
    const events = [world.ingest(), world.ingest()];
    await world.clock.advance(5_000);
    mend();
    expect(world.errors).toMatchObject([
      { message: "delivery.record_not_routed", fields: { topic: "events", offset: 0 } },
    ]);
    const sentTo = (eventId: string): number =>
      new Set(
        world.seen.filter((seen) => seen.eventId === eventId).map((seen) => seen.destinationId),
      ).size;
    expect(events.map(({ id }) => sentTo(id))).toEqual([3, 6]);
    await world.stop(first);
    await world.start("b");
    await world.clock.advance(60_000);
    expect(events.map(({ id }) => sentTo(id))).toEqual([6, 6]);
    expect(world.store.committed("delivery", "events", 0)?.offset).toBe(2);
  });
});

describe("a batch of many records", () => {
  function makeWorldWithBacklog(events: number): SimWorld {
    const world = new SimWorld({ delivery: { turnItems: 3, turnMs: 0 } });
    world.configure("dst_0");
    for (let index = 0; index < events; index += 1) world.ingest();
    return world;
  }

  it("lets other work be done before all of them are taken in: webhooks waited for a backlog's hundreds", async () => {
    const world = makeWorldWithBacklog(8);
    const { stopCounting, inEach } = countInTurns(world);
    await world.start();
    await world.clock.advance(2_000);
    stopCounting();
    expect(inEach()).toEqual([3, 3, 2]);
    expect(new Set(world.seen.map(({ eventId }) => eventId)).size).toBe(8);
    expect(world.store.committed("delivery", "events", 0)?.offset).toBe(8);
  });

  it("is left to the next owner from where it was, when the process stops between two turns", async () => {
    const world = makeWorldWithBacklog(8);
    const stops: Promise<void>[] = [];
    const stopCounting = beforeRouting(() => {
      if (stops.length === 0) stops.push(Promise.resolve().then(() => world.stop(first)));
    });
    const first = await world.start();
    await world.clock.advance(2_000);
    stopCounting();
    await Promise.all(stops);
    expect(world.seen).toHaveLength(3);
    await world.start("b");
    await world.clock.advance(60_000);
    expect(world.seen).toHaveLength(8);
    expect(new Set(world.seen.map(({ eventId }) => eventId)).size).toBe(8);
    expect(world.store.committed("delivery", "events", 0)?.offset).toBe(8);
  });
});
