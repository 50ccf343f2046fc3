import { expect, it } from "vitest";
import { firstTry } from "../../../src/domain/delivery-task.ts";
import { LogError } from "../../../src/domain/log.ts";
import type { LogRecord, NewRecord, OwnedPartition } from "../../../src/domain/log.ts";
import { TierForwarder } from "../../../src/pipeline/delay/tier-forwarder.ts";
import { encodeTask } from "../../../src/pipeline/log/task-codec.ts";
import { makeSilentLogger } from "../../support/silent-logger.ts";
import { SimClock } from "../../support/sim-clock.ts";
import { SimWorld } from "../../support/sim-world.ts";

const HOUR_MS = 3_600_000;
const LARGE_BYTES = 1_100_000;
const GONE = { gone: new Set(["dst_1"]), sooner: new Map(), mended: new Set<string>() };
const world = new SimWorld();

function makeTier(batches: (records: readonly LogRecord[]) => readonly (readonly LogRecord[])[]) {
  const clock = new SimClock();
  const appends: number[][] = [];
  const lateness: number[] = [];
  const commits: number[] = [];
  const tier = { isOwned: true, append: async (): Promise<[] | null> => [], failsToCommit: false };
  const records: LogRecord[] = [];
  const partition: OwnedPartition = {
    partition: 0,
    partitions: 1,
    owned: () => tier.isOwned,
    exclusive: () => true,
    committed: () => ({ offset: 1, metadata: "" }),
    endOffset: () => Promise.resolve(records.length),
    read: async function* (_topic, fromOffset) {
      yield* batches(records.slice(fromOffset));
    },
    commit: async ([entry]) => {
      commits.push(entry!.offset);
      if (tier.failsToCommit) throw new LogError("log_unavailable", "the log is away");
    },
  };
  const ports = {
    appender: {
      append: (moved: readonly NewRecord[]) => {
        appends.push(moved.map(({ value }) => records.findIndex((one) => one.value === value)));
        return tier.append();
      },
    },
    clock,
    logger: makeSilentLogger(),
    metrics: { forwarded: () => undefined, lateness: (seconds: number) => lateness.push(seconds) },
  };
  const forwarder = new TierForwarder(ports, partition, "delay-1h", HOUR_MS);
  const write = (dueInMs: number, bodyBytes = 10): LogRecord => {
    const event = world.makeEvent({ body: Buffer.alloc(bodyBytes) });
    const task = { ...firstTry(event, "dst_1", clock.now()), dueAtMs: clock.now() + dueInMs };
    const at = { topic: "delay-1h", partition: 0, key: "ep_1" } as const;
    const offset = records.length;
    const record = { ...at, offset, value: encodeTask(task), appendedAtMs: clock.now() };
    records.push(record);
    return record;
  };
  // Has gone on before, as `committed` says.
  write(0);
  return { clock, tier, forwarder, write, appends, lateness, commits };
}

/** Returns whether the promise settles while no time passes. */
async function settles(promise: Promise<unknown>): Promise<boolean> {
  let isSettled = false;
  void promise.finally(() => (isSettled = true));
  await new Promise((resolve) => setImmediate(resolve));
  return isSettled;
}

it("tells in seconds how late the head of a tier went on: the alert for late retries reads it", async () => {
  const { clock, forwarder, write, lateness } = makeTier(() => []);
  const [onTime, late] = [write(0), write(500)];
  await forwarder.forward([onTime]);
  await clock.advance(4_500);
  await forwarder.forward([late]);
  expect(lateness).toEqual([0, 4]);
  await forwarder.close();
});

it("a recall moves what has not gone on, up to where tasks were found: nothing twice, and nothing that came since", async () => {
  const { forwarder, write, appends, commits } = makeTier((records) => [records]);
  for (let count = 0; count < 4; count += 1) write(HOUR_MS);
  await forwarder.recall(GONE, 3);
  expect(appends).toEqual([[1, 2, 3]]);
  expect(commits).toEqual([4]);
  await forwarder.recall(GONE, 3);
  expect(appends).toHaveLength(1);
  await forwarder.close();
});

it("what a recall has moved waits no longer, and goes on only once", async () => {
  const { clock, forwarder, write, appends } = makeTier((records) => [records]);
  const forwarded = forwarder.forward([write(HOUR_MS), write(HOUR_MS)]);
  write(HOUR_MS);
  expect(await settles(forwarded)).toBe(false);
  await forwarder.recall(GONE, 2);
  expect(await settles(forwarded)).toBe(true);
  await clock.advance(2 * HOUR_MS);
  expect(appends).toEqual([[1, 2]]);
  await forwarder.close();
});

it("an owner that has lost its partition recalls nothing: its next owner would find it gone on, and here as well", async () => {
  const { tier, forwarder, write, appends } = makeTier((records) => [records]);
  write(HOUR_MS);
  tier.isOwned = false;
  await forwarder.recall(GONE, 1);
  expect(appends).toEqual([]);
  tier.isOwned = true;
  await forwarder.close();
  await forwarder.recall(GONE, 1);
  expect(appends).toEqual([]);
});

it("a recall whose records are not durable when the forwarder is closed moves nothing after them", async () => {
  const { tier, forwarder, write, appends, commits } = makeTier((records) =>
    records.map((record) => [record]),
  );
  for (let count = 0; count < 2; count += 1) write(HOUR_MS, LARGE_BYTES);
  tier.append = async () => null;
  await forwarder.recall(GONE, 2);
  expect(appends).toEqual([[1]]);
  expect(commits).toEqual([]);
});

it.each(["forward", "recall"] as const)(
  "is closed only once the append of a %s has ended: the next owner would read before it",
  async (by) => {
    const { tier, forwarder, write } = makeTier((records) => [records]);
    const records = [write(0)];
    let end: () => void = () => undefined;
    tier.append = () => new Promise((resolve) => (end = () => resolve([])));
    const done = by === "forward" ? forwarder.forward(records) : forwarder.recall(GONE, 1);
    await settles(done);
    const closed = forwarder.close();
    expect(await settles(closed)).toBe(false);
    end();
    expect(await settles(closed)).toBe(true);
  },
);

it("commits nothing after it was closed, though the last commit failed: the next owner has come further", async () => {
  const { clock, tier, forwarder, write, commits } = makeTier(() => []);
  tier.failsToCommit = true;
  const forwarded = forwarder.forward([write(0)]);
  await clock.advance(2_000);
  await forwarded;
  const before = commits.length;
  expect(before).toBeGreaterThan(1);
  await forwarder.close();
  await clock.advance(10_000);
  expect(commits).toHaveLength(before);
});
