import { expect, test } from "vitest";
import { startConfigFeed } from "../../../src/adapters/postgres/config-feed.ts";
import { toError } from "../../../src/domain/thrown.ts";
import { heldClock } from "../../support/held-clock.ts";
import { makeSilentLogger } from "../../support/silent-logger.ts";

test("regression: a PostgreSQL that is away for hours is told of once a minute: it was a line for each try, every ten seconds", async () => {
  const { clock, due, delaysMs } = heldClock();
  let nowMs = 0;
  const told: [string, number | undefined][] = [];
  await using feed = startConfigFeed({
    // Nothing listens there.
    connection: { host: "127.0.0.1", port: 1 },
    clock: { ...clock, monotonic: () => nowMs },
    logger: makeSilentLogger((_level, message, { times }: { times?: number }) => {
      told.push([message, times]);
    }),
    explain: toError,
    onChange: () => undefined,
    onGap: () => undefined,
  });
  const fail = async (times: number, apartMs: number): Promise<void> => {
    for (let time = 0; time < times; time += 1) {
      nowMs += apartMs;
      await due(() => true);
      await expect.poll(delaysMs).toHaveLength(1);
    }
  };
  await expect.poll(delaysMs).toHaveLength(1);
  await fail(5, 10_000);
  expect(told).toEqual([["config.feed_lost", 1]]);
  await fail(1, 10_000);
  expect(told).toEqual([
    ["config.feed_lost", 1],
    ["config.feed_lost", 6],
  ]);
  expect(feed.listening()).toBe(false);
});
