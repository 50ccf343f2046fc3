import { rename, truncate } from "node:fs/promises";
import { join } from "node:path";
import type { Worker } from "node:worker_threads";
import { expect, it, vi } from "vitest";
import { startConfigFeed } from "../../../src/adapters/postgres/config-feed.ts";
import { openDatabase } from "../../../src/adapters/postgres/database.ts";
import { makeSystemClock } from "../../../src/app/system-clock.ts";
import { toError } from "../../../src/domain/thrown.ts";
import { PostgresThread, startWorker } from "../../../src/embedded/pglite/postgres-thread.ts";
import { makeSocketDirectory, socketPath } from "../../../src/embedded/pglite/socket-directory.ts";
import { attachEmbeddedPostgres } from "../../../src/embedded/pglite/start.ts";
import { PGLITE_TEMPLATE, temporaryDirectory } from "../../support/postgres.ts";
import { makeSilentLogger, silentLogger } from "../../support/silent-logger.ts";
import { waitFor } from "../../support/wait-for.ts";

/** Makes a thread that serves where others look for the database of `directory`. */
async function makeThread(directory: string, dataDir = directory) {
  const workers: Worker[] = [];
  const told: string[] = [];
  const thread = new PostgresThread(
    {
      dataDir,
      path: socketPath(await makeSocketDirectory(directory)),
      templateFile: PGLITE_TEMPLATE,
      checkpointEveryMs: 60_000,
      analyzeEveryMs: 60_000,
      maxIdleMs: 60_000,
    },
    makeSilentLogger((_, message) => told.push(message)),
    (given) => {
      const worker = startWorker(given);
      workers.push(worker);
      return worker;
    },
  );
  return { thread, workers, told };
}

it("is started again when it ends by itself, with all that was committed, and changes are heard of again", async () => {
  await using directory = await temporaryDirectory();
  const { thread, workers, told } = await makeThread(directory.path);
  await using _ = thread;
  await thread.start();
  const connection = (await attachEmbeddedPostgres(directory.path))!;
  await using database = openDatabase({ connection, maxConnections: 2, logger: silentLogger });
  const heard: string[] = [];
  await using feed = startConfigFeed({
    connection,
    clock: makeSystemClock(),
    logger: silentLogger,
    explain: toError,
    onChange: ({ endpointId }) => heard.push(endpointId),
    onGap: () => heard.push("gap"),
  });
  await waitFor("the feed", () => feed.listening());
  await database.run("CREATE TABLE kept (id int)");
  await database.run("INSERT INTO kept VALUES (1)");

  await workers[0]!.terminate();
  await waitFor("the next thread", () => told.includes("pglite.thread_restarted"));
  expect(told).toEqual(["pglite.thread_ended", "pglite.thread_restarted"]);
  await waitFor("the feed again", () => heard.length === 2);
  expect(await database.run("SELECT id FROM kept")).toEqual([{ id: 1 }]);
  await database.run("SELECT pg_notify('relay_config', 'ep_1 token -')");
  await waitFor("the change", () => heard.length === 3);
  expect(heard).toEqual(["gap", "gap", "ep_1"]);

  const version = join(directory.path, "postgres", "data", "PG_VERSION");
  await rename(version, `${version}.aside`);
  await workers[1]!.terminate();
  await waitFor("a start that fails", () => told.includes("pglite.restart_failed"));
  await rename(`${version}.aside`, version);
  await waitFor("the next thread", () => told.at(-1) === "pglite.thread_restarted");
  expect(await database.run("SELECT id FROM kept")).toEqual([{ id: 1 }]);
}, 300_000);

it("is not started again once it was told to end, or when its database cannot be opened", async () => {
  await using directory = await temporaryDirectory();
  const ended = await makeThread(directory.path);
  await ended.thread.start();
  await ended.thread[Symbol.asyncDispose]();
  expect(ended.told).toEqual([]);
  const refused = await makeThread(directory.path, join(directory.path, "missing\0name"));
  await expect(refused.thread.start()).rejects.toThrow(/null bytes/);
  await waitFor("its end", () => refused.workers[0]!.threadId === -1);
  expect([ended.workers.length, refused.workers.length, refused.told]).toEqual([1, 1, []]);
}, 300_000);

it("regression: has ended once its database cannot be opened: its engine kept it for many seconds, and its memory, while others were started", async () => {
  await using directory = await temporaryDirectory();
  const made = await makeThread(directory.path);
  await made.thread.start();
  await made.thread[Symbol.asyncDispose]();
  await truncate(join(directory.path, "postgres", "data", "global", "pg_control"));
  const { thread, workers } = await makeThread(directory.path);
  await expect(thread.start()).rejects.toThrow(/cannot be opened/);
  expect(workers[0]!.threadId).toBe(-1);
}, 300_000);

it("is not started again once it was told to end, also where that was about to happen", async () => {
  await using directory = await temporaryDirectory();
  const { thread, workers, told } = await makeThread(directory.path);
  await thread.start();
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  try {
    await workers[0]!.terminate();
    expect(told).toEqual(["pglite.thread_ended"]);
    await thread[Symbol.asyncDispose]();
    vi.advanceTimersByTime(1_000);
    expect(workers).toHaveLength(1);
  } finally {
    vi.useRealTimers();
  }
}, 300_000);
