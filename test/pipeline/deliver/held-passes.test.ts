import { describe, expect, it } from "vitest";
import type { DeliveryTask } from "../../../src/domain/delivery-task.ts";
import type { DestinationConfig, Lookup } from "../../../src/domain/destination.ts";
import type { LogRecord, NewRecord, OwnedPartition } from "../../../src/domain/log.ts";
import { encodeHeldTask } from "../../../src/pipeline/deliver/held/held-codec.ts";
import type { HeldHost } from "../../../src/pipeline/deliver/held/held-host.ts";
import { HeldTasks } from "../../../src/pipeline/deliver/held/held-tasks.ts";
import { firstTry } from "../../../src/domain/delivery-task.ts";
import { decodeTask } from "../../../src/pipeline/log/task-codec.ts";
import { makeSilentLogger } from "../../support/silent-logger.ts";
import { SimClock } from "../../support/sim-clock.ts";
import { SimWorld } from "../../support/sim-world.ts";

const ACTIVE: Lookup<DestinationConfig> = {
  kind: "found",
  value: { status: "active" } as DestinationConfig,
};
const BATCH_RECORDS = 50;

/** Held tasks of one partition, with a log that counts how it is read. */
class HeldRig {
  readonly clock = new SimClock();
  readonly log: LogRecord[] = [];
  readonly lines: { readonly message: string; readonly fields: object }[] = [];
  readonly released: DeliveryTask[] = [];
  readonly ended: DeliveryTask[] = [];
  recordsRead = 0;
  readsUnderway = 0;
  maxReads = 0;
  /** The gauge. */
  count = 0;
  lookUp: HeldHost["lookUp"] = () => ACTIVE;
  hasRoom: HeldHost["hasRoom"] = () => true;
  takesTasks = true;
  readonly held: HeldTasks;
  readonly #event = new SimWorld().makeEvent();

  constructor() {
    this.held = new HeldTasks({
      clock: this.clock,
      logger: makeSilentLogger((level, message, fields) => {
        if (level === "error") this.lines.push({ message, fields });
      }),
      partition: {
        partition: 0,
        read: (_topic: string, from: number) => this.#read(from),
      } as unknown as OwnedPartition,
      retentionMs: 86_400_000,
      log: { writesWhole: true },
      mayStart: () => true,
      lookUp: (destinationId) => this.lookUp(destinationId),
      hasRoom: (destinationId) => this.hasRoom(destinationId),
      write: (records) => this.#write(records),
      copied: (_task, work) => work(),
      deadRecord: (task) => {
        this.ended.push(task);
        return { topic: "attempts", key: "ep_1", value: Buffer.alloc(0) };
      },
      onHeld: (change) => {
        this.count += change;
      },
      onDead: () => undefined,
    });
    this.held.startCounting();
  }

  /** Holds the tasks of `events` events, each for every destination in turn. */
  fill(destinations: number, events: number, bodyBytes = 10): void {
    const event = { ...this.#event, body: Buffer.alloc(bodyBytes) };
    for (let nth = 0; nth < events; nth += 1)
      for (let id = 0; id < destinations; id += 1) {
        const task = {
          ...firstTry(event, `dst_${id}`, this.clock.now()),
          run: `run${nth}`,
        };
        this.held.index.note(this.log.length, { kind: "task", task });
        this.log.push({
          topic: "held",
          partition: 0,
          offset: this.log.length,
          key: "ep_1",
          value: encodeHeldTask(task),
          appendedAtMs: this.clock.now(),
        });
        this.count += 1;
      }
  }

  releasedTo(destinationId: string): string[] {
    return this.released
      .filter((task) => task.destinationId === destinationId)
      .map(({ run }) => run);
  }

  async *#read(from: number): AsyncGenerator<LogRecord[]> {
    this.readsUnderway += 1;
    this.maxReads = Math.max(this.maxReads, this.readsUnderway);
    try {
      const left = this.log.filter(({ offset }) => offset >= from);
      for (let at = 0; at < left.length; at += BATCH_RECORDS) {
        await this.#pause(1);
        const batch = left.slice(at, at + BATCH_RECORDS);
        this.recordsRead += batch.length;
        yield batch;
      }
    } finally {
      this.readsUnderway -= 1;
    }
  }

  async #write(records: readonly NewRecord[]) {
    await this.#pause(5);
    const tasks = records.filter(({ topic }) => topic === "tasks");
    if (!this.takesTasks && tasks.length > 0) return null;
    const released = tasks.map(({ value }) => decodeTask(value));
    this.released.push(...released);
    // They come back through `tasks` a little later.
    for (const task of released) this.clock.schedule(5, () => this.held.onArrived(task));
    return records.map(() => ({ partition: 0, offset: 0 }));
  }

  #pause(delayMs: number): Promise<void> {
    return new Promise((resolve) => {
      this.clock.schedule(delayMs, resolve);
    });
  }
}

describe("regression: each of many destinations read the whole log of held tasks, all at once", () => {
  it.each([
    ["resumed", ACTIVE],
    ["deleted", { kind: "missing" } as const],
  ])("reads it about once for all that are %s, one pass at a time", async (_what, lookup) => {
    const perTask: number[] = [];
    for (const destinations of [100, 400]) {
      const rig = new HeldRig();
      rig.lookUp = () => lookup;
      rig.fill(destinations, 10);
      rig.held.sweep();
      await rig.clock.until(() => rig.held.index.size === 0, 60_000, 10);
      const done = [...rig.released, ...rig.ended];
      expect(new Set(done.map(({ destinationId, run }) => `${destinationId} ${run}`)).size).toBe(
        destinations * 10,
      );
      expect(done).toHaveLength(destinations * 10);
      expect(rig.count).toBe(0);
      expect(rig.maxReads).toBe(1);
      perTask.push(rig.recordsRead / done.length);
    }
    // Each destination on its own reads 90 and 360 of these.
    for (const records of perTask) expect(records).toBeLessThan(4);
  });

  it("does so as well when each is named in a turn of its own", async () => {
    const rig = new HeldRig();
    rig.fill(400, 10);
    for (let id = 0; id < 400; id += 1) {
      rig.held.release(`dst_${id}`);
      await rig.clock.advance(0);
    }
    await rig.clock.until(() => rig.held.index.size === 0, 60_000, 10);
    expect(rig.released).toHaveLength(4_000);
    expect(rig.maxReads).toBe(1);
    expect(rig.recordsRead / 4_000).toBeLessThan(4);
  });
});

describe("a pass over held tasks", () => {
  it("lets 200 of a destination go, and no more before they have come back", async () => {
    const rig = new HeldRig();
    rig.fill(2, 450);
    rig.held.onArrived = () => undefined;
    rig.held.sweep();
    await rig.clock.advance(1_000);
    expect(rig.releasedTo("dst_0")).toHaveLength(200);
    expect(rig.releasedTo("dst_1")).toHaveLength(200);
    // The log is read as far as these are, not to its end.
    expect(rig.recordsRead).toBeLessThanOrEqual(400 + BATCH_RECORDS);
  });

  it("comes back soon to what the log did not take, without a change or the sweep", async () => {
    const rig = new HeldRig();
    rig.fill(1, 5);
    rig.takesTasks = false;
    rig.held.sweep();
    await rig.clock.advance(1_000);
    expect(rig.held.index.size).toBe(5);
    rig.takesTasks = true;
    await rig.clock.advance(1_000);
    expect(rig.releasedTo("dst_0")).toHaveLength(5);
    expect([rig.held.index.size, rig.count]).toEqual([0, 0]);
  });

  it("leaves out a destination without room, and looks at it again", async () => {
    const rig = new HeldRig();
    rig.fill(3, 5);
    rig.hasRoom = (destinationId) => destinationId !== "dst_0";
    rig.held.sweep();
    await rig.clock.advance(150);
    expect(rig.released).toHaveLength(10);
    expect(rig.releasedTo("dst_0")).toEqual([]);
    rig.hasRoom = () => true;
    await rig.clock.advance(400);
    expect(rig.releasedTo("dst_0")).toHaveLength(5);
  });

  it("serves the others when a destination fails, which is left to the sweep", async () => {
    const rig = new HeldRig();
    rig.fill(3, 5);
    rig.log[1] = { ...rig.log[1]!, value: Buffer.from("not a record") };
    rig.lookUp = (destinationId) => {
      if (destinationId === "dst_2") throw new Error("no configuration");
      return ACTIVE;
    };
    rig.held.sweep();
    await rig.clock.advance(1_000);
    expect(rig.releasedTo("dst_0")).toHaveLength(5);
    expect(rig.released).toHaveLength(5);
    expect(rig.lines).toMatchObject([
      { message: "held.release_failed", fields: { destinationId: "dst_2" } },
      { message: "held.release_failed", fields: { destinationId: "dst_1" } },
    ]);
    rig.lookUp = () => ACTIVE;
    rig.held.sweep();
    await rig.clock.advance(1_000);
    expect(rig.releasedTo("dst_2")).toHaveLength(5);
  });

  it("takes few large records at a time, and comes to the last destination", async () => {
    const rig = new HeldRig();
    rig.fill(10, 3, 1_048_576);
    rig.held.sweep();
    await rig.clock.until(() => rig.released.length > 0, 1_000, 1);
    expect(rig.released.length).toBeLessThan(6);
    await rig.clock.until(() => rig.held.index.size === 0, 60_000, 10);
    expect(rig.released).toHaveLength(30);
    expect(rig.recordsRead).toBeLessThanOrEqual(30 * BATCH_RECORDS);
  });

  it("serves each destination once before any of them again, however late in the log its first task is", async () => {
    const rig = new HeldRig();
    rig.fill(1, 3_000, 10_000);
    const late = { ...firstTry(new SimWorld().makeEvent(), "dst_late", 0), run: "late" };
    const offset = rig.log.length;
    rig.held.index.note(offset, {
      kind: "task",
      task: { ...late, runStartedAtMs: rig.clock.now() },
    });
    rig.log.push({ ...rig.log[0]!, offset, value: encodeHeldTask(late) });
    rig.held.sweep();
    await rig.clock.until(() => rig.releasedTo("dst_late").length > 0, 10_000, 1);
    expect(rig.releasedTo("dst_0")).toHaveLength(200);
  });
});

it("regression: held tasks whose records were lost while later ones are left stayed in the index and in the gauge for good", async () => {
  const rig = new HeldRig();
  rig.fill(3, 4);
  rig.log.splice(0, 7);
  rig.held.sweep();
  await rig.clock.advance(5_000);
  expect(rig.released).toHaveLength(5);
  expect(rig.held.index.size).toBe(0);
  expect(rig.count).toBe(0);
  expect(rig.lines).toEqual([
    { message: "held.records_lost", fields: { destinationId: "dst_0", count: 3 } },
    { message: "held.records_lost", fields: { destinationId: "dst_1", count: 2 } },
    { message: "held.records_lost", fields: { destinationId: "dst_2", count: 2 } },
  ]);
});
