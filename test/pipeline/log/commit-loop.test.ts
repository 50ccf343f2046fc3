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
