import { spawn } from "node:child_process";
import { once } from "node:events";
import { copyFile, mkdir, mkdtemp, readdir, rm, stat, truncate, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, test } from "vitest";
import { connectClickHouse } from "../../../src/adapters/clickhouse/connect.ts";
import type * as EngineModule from "../../../src/embedded/chdb/engine.ts";
import { readCredentials, writeCredentials } from "../../../src/embedded/chdb/credentials-file.ts";
import { waitForFormerChild } from "../../../src/embedded/chdb/former-child.ts";
import { startEmbeddedClickHouse } from "../../../src/embedded/chdb/start-embedded-clickhouse.ts";
import { pidExists, startTime } from "../../../src/embedded/data-dir-process.ts";
import { runRelay } from "../../support/relay-process.ts";
import { makeSilentLogger } from "../../support/silent-logger.ts";
import { skipOrFail } from "../../support/stores/skip-or-fail.ts";
import { mountSmallDisk, smallDiskRefusal } from "../../support/stores/small-disk.ts";

const logger = makeSilentLogger();
const noSmallDisk = await smallDiskRefusal();
let dataDir = "";
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "relay-chdb-fails-"));
});
afterEach(async () => {
  await rm(dataDir, { recursive: true, force: true });
});

/** Returns what the program prints in one line; any other error it would print with its stack. */
async function toldOf(failing: Promise<unknown>): Promise<string> {
  const error = await failing.then(
    () => null,
    (thrown: unknown) => thrown,
  );
  expect(error).toMatchObject({ name: "UsageError" });
  const { message } = error as Error;
  expect(message).not.toContain("\n");
  return message;
}

test.skipIf(noSmallDisk !== null && skipOrFail("a small disk", noSmallDisk))(
  "regression: no store is made on a full disk, which says so, and one is made once there is room: it was made of empty files, and could not be opened ever after",
  async () => {
    await using disk = await mountSmallDisk(96, join(dataDir, "clickhouse"));
    await disk.fill();
    expect(await toldOf(startEmbeddedClickHouse({ dataDir, logger }))).toContain(
      `0 MiB are free on the disk of ${disk.path}: make room for 64 MiB at least`,
    );
    await disk.free();
    await using embedded = await startEmbeddedClickHouse({ dataDir, logger });
    expect(pidExists(embedded.pid)).toBe(true);
  },
);

test("a store that cannot be opened is told in one line with what to do, and is kept: it was told by a stack", async () => {
  {
    await using embedded = await startEmbeddedClickHouse({ dataDir, logger });
    const client = connectClickHouse(embedded.url);
    await client.command({ query: "CREATE TABLE kept (n UInt8) ENGINE = MergeTree ORDER BY n" });
    await client.close();
  }
  const storeDir = join(dataDir, "clickhouse");
  const files = await readdir(storeDir, { recursive: true });
  const definition = join(
    storeDir,
    files.find((name) => name.endsWith("kept.sql"))!,
  );
  await truncate(definition);
  const told = await toldOf(startEmbeddedClickHouse({ dataDir, logger }));
  expect(told).toContain(`${storeDir} cannot be opened`);
  expect(told).toContain("restore the data directory from a backup");
  expect((await stat(definition)).size).toBe(0);
  // One more would be left with each time that it is tried again.
  expect(pidExists((await readCredentials(dataDir))!.pid)).toBe(false);
});

test("a store whose directory is gone is made anew, and what that means is told: nothing was", async () => {
  const lines: string[] = [];
  const listening = makeSilentLogger((level, message) => lines.push(`${level} ${message}`));
  const missing = "warn clickhouse.embedded.store_missing";
  await (await startEmbeddedClickHouse({ dataDir, logger: listening }))[Symbol.asyncDispose]();
  expect(lines).not.toContain(missing);
  await rm(join(dataDir, "clickhouse"), { recursive: true });
  await (await startEmbeddedClickHouse({ dataDir, logger: listening }))[Symbol.asyncDispose]();
  expect(lines).toContain(missing);
});

test("a file where the store's directory should be is told in one line", async () => {
  await writeFile(join(dataDir, "clickhouse"), "");
  const told = await toldOf(startEmbeddedClickHouse({ dataDir, logger }));
  expect(told).toMatch(/clickhouse cannot be made \(EEXIST\).*RELAY_DATA_DIR/);
});

test("an engine that is not installed is told in one line with what to set", async () => {
  // From this folder no node_modules is found.
  for (const file of ["embedded/chdb/engine.ts", "domain/thrown.ts"]) {
    await mkdir(join(dataDir, dirname(file)), { recursive: true });
    await copyFile(
      fileURLToPath(new URL(`../../../src/${file}`, import.meta.url)),
      join(dataDir, file),
    );
  }
  const engine = join(dataDir, "embedded/chdb/engine.ts");
  const { loadEngine } = (await import(engine)) as typeof EngineModule;
  expect(() => loadEngine(dataDir, [])).toThrow(
    /^it cannot be loaded \(Cannot find module 'chdb'\): set CLICKHOUSE_URL, or run npm ci/,
  );
});

test("an earlier owner's child that does not end is told in one line with its number", async () => {
  const child = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)", "chdb-worker"]);
  try {
    await once(child, "spawn");
    for (const startedAt of [startTime(child.pid!), null]) {
      const told = await toldOf(waitForFormerChild({ pid: child.pid!, startedAt }, 200));
      expect(told).toContain(`kill -9 ${child.pid}`);
    }
  } finally {
    child.kill("SIGKILL");
    await once(child, "exit");
  }
});

test("the number of an earlier child that another relay's has by now keeps nobody from starting: after a reboot it was to be killed", async () => {
  await (await startEmbeddedClickHouse({ dataDir, logger }))[Symbol.asyncDispose]();
  const other = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)", "chdb-worker"]);
  try {
    await once(other, "spawn");
    const former = await readCredentials(dataDir);
    await writeCredentials(dataDir, { ...former!, pid: other.pid! });
    await using again = await startEmbeddedClickHouse({ dataDir, logger });
    expect(again.pid).not.toBe(other.pid);
  } finally {
    other.kill("SIGKILL");
    await once(other, "exit");
  }
}, 40_000);

test("starts no engine while an earlier owner's still has the directory: two in one destroy it", async () => {
  const former = spawn(process.execPath, ["-e", "setInterval(() => {}, 1000)", "chdb-worker"]);
  const { pid = -1 } = former;
  try {
    await once(former, "spawn");
    await writeCredentials(dataDir, { url: "", pid, startedAt: startTime(pid) });
    const starting = startEmbeddedClickHouse({ dataDir, logger });
    // By then it would have given the number of its own.
    await delay(2_000);
    expect((await readCredentials(dataDir))!.pid).toBe(pid);
    former.kill("SIGKILL");
    await using embedded = await starting;
    expect(embedded.pid).not.toBe(pid);
  } finally {
    former.kill("SIGKILL");
  }
}, 40_000);

test("the number of an earlier child that another program has by now keeps nobody from starting, though it is not known when that child began", async () => {
  await waitForFormerChild({ pid: process.pid, startedAt: null }, 0);
});

test("a store that a newer relay has migrated ends the start with what to do: it was tried again for ever", async () => {
  {
    await using embedded = await startEmbeddedClickHouse({ dataDir, logger });
    const client = connectClickHouse(embedded.url);
    await client.command({
      query: "CREATE TABLE schema_migrations (version UInt32) ENGINE = MergeTree ORDER BY version",
    });
    await client.command({ query: "INSERT INTO schema_migrations VALUES (99)" });
    await client.close();
  }
  const { code, stderr } = await runRelay(["start", "--roles", "api"], {
    RELAY_DATA_DIR: dataDir,
    RELAY_API_PORT: "0",
    RELAY_OPS_PORT: "0",
  });
  expect(stderr).toMatch(
    /^relay: the ClickHouse schema is at version 99, this relay knows \d+: start the newer relay\n$/,
  );
  expect(code).toBe(2);
});
