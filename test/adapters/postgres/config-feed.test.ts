import { expect, test } from "vitest";
import { startConfigFeed } from "../../../src/adapters/postgres/config-feed.ts";
import { toError } from "../../../src/domain/thrown.ts";
import { heldClock } from "../../support/held-clock.ts";
import { startPlayedPostgres } from "../../support/played-postgres.ts";
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

test("tries again after longer and longer pauses, and after a short one once it has listened, whether its connection broke or only its question failed", async () => {
  await using server = await startPlayedPostgres();
  const { clock, due, delaysMs } = heldClock();
  let nowMs = 0;
  const next = () => {
    nowMs += 1_000;
    return due(() => true);
  };
  const outagesMs: unknown[] = [];
  let gaps = 0;
  server.state.refuses = true;
  const feed = startConfigFeed({
    connection: server.connection,
    clock: { ...clock, monotonic: () => nowMs },
    logger: makeSilentLogger((_level, message, { afterMs }: { afterMs?: number }) => {
      if (message === "config.feed_restored") outagesMs.push(afterMs);
    }),
    explain: toError,
    onChange: () => undefined,
    onGap: () => (gaps += 1),
  });
  for (const delayMs of [250, 500, 1_000, 2_000, 4_000, 8_000, 10_000, 10_000]) {
    await expect.poll(delaysMs).toEqual([delayMs]);
    if (gaps === 0) await next();
  }
  server.state.refuses = false;
  for (const spoil of [server.cut, () => (server.state.fails = true)]) {
    await next();
    await expect.poll(delaysMs).toEqual([15_000]);
    expect(feed.listening()).toBe(true);
    // It listens still, and asks again.
    await next();
    await expect.poll(delaysMs).toEqual([15_000]);
    spoil();
    if (server.state.fails) await next();
    await expect.poll(delaysMs).toEqual([250]);
    expect(feed.listening()).toBe(false);
    server.state.fails = false;
  }
  expect(gaps).toBe(2);
  await next();
  await expect.poll(() => gaps).toBe(3);
  expect(outagesMs[0]).toBe(9_000);
  await expect.poll(server.openConnections).toBe(1);
  const ended = feed[Symbol.asyncDispose]();
  server.cut();
  await ended;
  expect(delaysMs()).toEqual([]);
});
