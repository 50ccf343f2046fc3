import { expect, it } from "vitest";
import type { CommitEntry, OwnedPartition } from "../../../src/domain/log.ts";
import { CommitLoop } from "../../../src/pipeline/log/commit-loop.ts";
import { makeSilentLogger } from "../../support/silent-logger.ts";
import { SimClock } from "../../support/sim-clock.ts";

it("regression: positions that cannot be told are logged and asked for again: every later commit failed with them, and nothing said so", async () => {
  const clock = new SimClock();
  const committed: number[] = [];
  const lines: string[] = [];
  let isBroken = true;
  const partition = {
    partition: 0,
    commit: async (entries: readonly CommitEntry[]) => {
      committed.push(...entries.map(({ offset }) => offset));
    },
  } as unknown as OwnedPartition;
  const loop = new CommitLoop({
    partition,
    clock,
    logger: makeSilentLogger((_level, message) => lines.push(message)),
    intervalMs: 100,
    entries: (): readonly CommitEntry[] => {
      if (isBroken) throw new Error("no position");
      return [{ topic: "events", offset: 7 }];
    },
  });
  expect(await loop.commit().catch(() => "rejected")).toBe(false);
  expect(lines).toEqual(["log.commit_failed"]);
  isBroken = false;
  await clock.advance(100);
  expect(committed).toEqual([7]);
  expect(await loop.commit()).toBe(true);
  loop.close();
});

/** A loop over one topic's position, whose commits end when the test says so. */
function aLoop() {
  const clock = new SimClock();
  const position: { offset: number; metadata?: string } = { offset: 1 };
  const commits: { readonly offset: number | undefined; readonly end: () => void }[] = [];
  const partition = {
    partition: 0,
    commit: ([entry]: readonly CommitEntry[]) =>
      new Promise<void>((resolve) => commits.push({ offset: entry?.offset, end: resolve })),
  } as unknown as OwnedPartition;
  const loop = new CommitLoop({
    partition,
    clock,
    logger: makeSilentLogger(),
    intervalMs: 100,
    entries: (): readonly CommitEntry[] => [{ topic: "events", ...position }],
  });
  return { loop, clock, position, commits, offsets: () => commits.map(({ offset }) => offset) };
}

it("one commit runs at a time, and the next one tells where things stand by then: an earlier position must not come last", async () => {
  const { loop, clock, position, commits, offsets } = aLoop();
  const all = [loop.commit(), loop.commit(), loop.commit()];
  await clock.advance(0);
  expect(offsets()).toEqual([1]);
  position.offset = 2;
  commits[0]!.end();
  await clock.advance(0);
  expect(offsets()).toEqual([1, 2]);
  position.offset = 3;
  commits[1]!.end();
  await clock.advance(0);
  commits[2]!.end();
  expect(await Promise.all(all)).toEqual([true, true, true]);
  expect(offsets()).toEqual([1, 2, 3]);
});

it("what is committed already is not committed again, and what changes later is, once per interval", async () => {
  const { loop, clock, position, commits, offsets } = aLoop();
  for (const offset of [1, 1, 2]) {
    position.offset = offset;
    for (let touch = 0; touch < 3; touch += 1) loop.touch();
    await clock.advance(100);
    for (const { end } of commits) end();
    await clock.advance(0);
  }
  expect(offsets()).toEqual([1, 2]);
});

it("an offset is committed again when its metadata has changed: the next owner reads on from what it says", async () => {
  const { loop, clock, position, commits, offsets } = aLoop();
  for (const metadata of ["floor 1", "floor 1", "floor 2"]) {
    position.metadata = metadata;
    loop.touch();
    await clock.advance(100);
    for (const { end } of commits) end();
    await clock.advance(0);
  }
  expect(offsets()).toEqual([1, 1]);
});

it("nothing is committed by itself once it is closed", async () => {
  const { loop, clock, offsets } = aLoop();
  loop.touch();
  loop.close();
  loop.touch();
  await clock.advance(1_000);
  expect(offsets()).toEqual([]);
});

it("regression: a commit that goes on failing is told of once a minute: under a full disk, each partition filled the log with a line a second", async () => {
  const clock = new SimClock();
  const told: object[] = [];
  const partition = {
    partition: 0,
    commit: () => Promise.reject(new Error("the disk is full")),
  } as unknown as OwnedPartition;
  const loop = new CommitLoop({
    partition,
    clock,
    logger: makeSilentLogger((_level, _message, fields) => told.push(fields)),
    intervalMs: 1_000,
    entries: (): readonly CommitEntry[] => [{ topic: "events", offset: 7 }],
  });
  loop.touch();
  await clock.advance(2.5 * 60_000);
  loop.close();
  expect(told).toMatchObject([
    { partition: 0, times: 1 },
    { partition: 0, times: 60 },
    { partition: 0, times: 60 },
  ]);
});
