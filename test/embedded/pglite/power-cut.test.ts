import fsPromises, { rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { PGlite } from "@electric-sql/pglite";
import { NodeFS } from "@electric-sql/pglite/nodefs";
import { expect, it, vi } from "vitest";
import { openDatabaseFiles } from "../../../src/embedded/pglite/database-files.ts";
import { syncTree } from "../../../src/embedded/pglite/synced-files.ts";
import { PGLITE_TEMPLATE, temporaryDirectory } from "../../support/postgres.ts";
import { replaceFiles } from "../../support/replace-files.ts";
import { seededRandom } from "../../support/sim-clock.ts";
import { silentLogger } from "../../support/silent-logger.ts";
import { SyncedDisk, type ReachedDisk } from "../../support/synced-disk.ts";

vi.setConfig({ testTimeout: 300_000 });

const random = seededRandom(20_261_127);
const isLog = (file: string): boolean => file.includes("/pg_wal/");

/** Which of the sectors that were not synced are on the disk, besides those that were. */
const LOSSES: Readonly<Record<string, ReachedDisk>> = {
  none: () => false,
  "those of its log alone": isLog,
  "all but those of its log": (file) => !isLog(file),
  "some or others": () => random() < 0.5,
};

function openFiles(
  dataDir: string,
  onPanic: (reason: string) => void = (reason) => expect.fail(reason),
): Promise<PGlite> {
  return openDatabaseFiles(
    { PGlite, NodeFS, onPanic },
    { dataDir, templateFile: PGLITE_TEMPLATE, logger: silentLogger },
  );
}

async function count(database: PGlite): Promise<number> {
  const { rows } = await database.query<{ n: number }>("SELECT count(*)::int AS n FROM written");
  return rows[0]!.n;
}

it("keeps every write that the embedded PostgreSQL has answered after a power cut, in whatever order its pages came to the disk", async () => {
  await using directory = await temporaryDirectory();
  using disk = new SyncedDisk(directory.path);
  const dataDir = join(directory.path, "relay");
  let database = await openFiles(dataDir);
  await database.exec("CREATE TABLE written (id int PRIMARY KEY, filler text NOT NULL)");
  let answered = 0;
  const write = async (rows: number): Promise<void> => {
    for (let row = 0; row < rows; row += 1) {
      await database.query("INSERT INTO written VALUES ($1, repeat('x', 500))", [answered]);
      answered += 1;
    }
  };

  for (const [loss, reached] of Object.entries(LOSSES)) {
    await write(40);
    // What a checkpoint relies on must be on the disk as well.
    await database.exec("CHECKPOINT");
    await write(10);
    const left = join(directory.path, loss.replaceAll(" ", "-"));
    disk.leaveSome(left, reached, dataDir);

    await using after = await openFiles(left);
    expect(await count(after), loss).toBe(answered);
    await after.query("INSERT INTO written VALUES ($1, '')", [answered]);
  }

  await database.close();
  const closed = join(directory.path, "closed");
  disk.leaveSome(closed, () => false, dataDir);
  await using reopened = await openFiles(closed);
  expect(await count(reopened), "closed before").toBe(answered);

  // Until here, it had been made by the same start.
  database = await openFiles(dataDir);
  await write(10);
  const restarted = join(directory.path, "restarted");
  disk.leaveSome(restarted, () => false, dataDir);
  await using again = await openFiles(restarted);
  expect(await count(again), "restarted before").toBe(answered);
  await database.close();
});

it("syncs a directory of many files with few of them open at the same time", async () => {
  await using directory = await temporaryDirectory();
  const names = Array.from({ length: 100 }, (_, number) => `file-${number}`);
  for (const name of names) await writeFile(join(directory.path, name), "written");
  const { open } = fsPromises;
  let [openNow, maxOpen, closed] = [0, 0, 0];
  const openAndCount = async (...args: Parameters<typeof open>) => {
    openNow += 1;
    maxOpen = Math.max(maxOpen, openNow);
    const file = await open(...args);
    const close = file.close.bind(file);
    file.close = async () => {
      openNow -= 1;
      closed += 1;
      return close();
    };
    return file;
  };
  const counting = replaceFiles({}, { open: openAndCount });
  try {
    await syncTree(directory.path);
  } finally {
    counting[Symbol.dispose]();
  }
  expect(closed).toBe(names.length + 1);
  expect(maxOpen).toBeLessThan(20);
});

it("tells that the engine gave up when the disk does not take its log, and why it cannot be opened", async () => {
  await using directory = await temporaryDirectory();
  using disk = new SyncedDisk(directory.path);
  const panics: string[] = [];
  const database = await openFiles(directory.path, (reason) => panics.push(reason));
  await database.exec("CREATE TABLE written (id int PRIMARY KEY, filler text NOT NULL)");
  disk.fail("pg_wal");
  await expect(database.query("INSERT INTO written VALUES (1, '')")).rejects.toThrow(
    /could not fsync file .* I\/O error/,
  );
  expect(panics).toEqual([expect.stringMatching(/^could not fsync file .* I\/O error$/)]);

  disk.fail(null);
  const after = await openFiles(directory.path);
  expect(await count(after)).toBeLessThanOrEqual(1);
  await after.close();
  await rm(join(directory.path, "postgres", "data", "pg_wal"), { recursive: true });
  await expect(openFiles(directory.path)).rejects.toThrow(
    /cannot be opened \(required WAL directory .* does not exist\): see that its disk has room, or restore/,
  );
});
