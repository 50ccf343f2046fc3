import { expect, it } from "vitest";
import type { ConsumerOptions, LogRecord, OwnedPartition } from "../../../src/domain/log.ts";
import { SimWorld } from "../../support/sim-world.ts";

it("a partition that is lost while its owner still recovers leaves nothing behind: no commit, no timer", async () => {
  const world = new SimWorld();
  const commits: unknown[] = [];
  const consumers: ConsumerOptions[] = [];
  let release = (): void => undefined;
  const held = new Promise<void>((resolve) => {
    release = resolve;
  });
  const open = world.store.open.bind(world.store);
  world.store.open = (process) => ({
    ...open(process),
    partitions: 1,
    consume: async (options) => {
      if (options.group === "delivery") consumers.push(options);
      return { lag: async () => new Map(), [Symbol.asyncDispose]: async () => {} };
    },
  });
  let isOwned = true;
  const partition: OwnedPartition = {
    partition: 0,
    partitions: 1,
    owned: () => isOwned,
    exclusive: () => isOwned,
    committed: () => null,
    endOffset: async () => 0,
    async *read(): AsyncGenerator<readonly LogRecord[]> {
      await held;
      yield [];
    },
    commit: async (entries) => {
      commits.push(entries);
      throw new Error("the session is over");
    },
  };
  await world.start();
  const assigned = consumers[0]!.onAssigned(partition);
  isOwned = false;
  await consumers[0]!.onRevoked(partition);
  release();
  await assigned;
  await world.clock.advance(60_000);
  expect(commits).toEqual([]);
});
