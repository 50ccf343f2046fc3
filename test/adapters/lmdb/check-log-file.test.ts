import { readFile, stat, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { checkLogFile } from "../../../src/adapters/lmdb/check-log-file.ts";
import { openStore } from "../../../src/adapters/lmdb/store.ts";
import { record } from "../../support/log-consumer.ts";
import { openTestLog, storeIn, temporaryDir } from "../../support/log-lmdb.ts";

const PAGE_BYTES = 4_096;
/** Where the two meta pages are, and in each what lmdb.h calls `mm_psize`, `mm_dbs[].md_root` and `mm_last_pg`. */
const METAS = [0, PAGE_BYTES];
const PAGE_SIZE = 24 + 24;
const ROOTS = [24 + 64, 24 + 112];
const LAST_PAGE = 24 + 120;

async function withRecords(dir: string): Promise<void> {
  await using log = await openTestLog(dir);
  for (let round = 0; round < 20; round += 1)
    await log.append(
      Array.from({ length: 50 }, (_, index) => record("events", index % 2, `${round}`)),
    );
}

it("regression: refuses an index that is cut short by its last page, by half, or to its first page: the process ended with a bus error and without a word", async () => {
  await using dir = await temporaryDir();
  await withRecords(dir.path);
  const { path, segmentsDir } = storeIn(dir.path);
  const whole = await readFile(path);
  await checkLogFile(path, segmentsDir);
  // Behind its last page there is only room made ahead.
  const usedPages = Math.ceil((whole.findLastIndex((byte) => byte !== 0) + 1) / PAGE_BYTES);
  const usedBytes = usedPages * PAGE_BYTES;
  for (const left of [usedBytes - PAGE_BYTES, usedBytes / 2, PAGE_BYTES, 100]) {
    await writeFile(path, whole);
    await truncate(path, left);
    await expect(openStore(storeIn(dir.path))).rejects.toThrow(/log\.mdb is cut short: restore/);
  }
  await writeFile(path, whole);
  await using log = await openTestLog(dir.path);
  const [next] = await log.append([record("events", 0, "after")]);
  expect(next!.offset).toBe(500);
});

it("takes one that has just been made, and one that ends a few pages before what it counts", async () => {
  await using dir = await temporaryDir();
  const { path, segmentsDir } = storeIn(dir.path);
  await checkLogFile(path, segmentsDir);
  await (await openTestLog(dir.path))[Symbol.asyncDispose]();
  await checkLogFile(path, segmentsDir);
  // Pages that the two meta pages count, but that were never written.
  const head = (await readFile(path)).subarray(0, 100 * PAGE_BYTES);
  const withUnwritten = async (pages: number): Promise<void> => {
    const last = BigInt(head.length / PAGE_BYTES + pages - 1);
    for (const meta of METAS) head.writeBigUInt64LE(last, meta + LAST_PAGE);
    await writeFile(path, head);
    await checkLogFile(path, segmentsDir);
  };
  await withUnwritten(64);
  expect((await stat(path)).size).toBe(head.length);
  await expect(withUnwritten(65)).rejects.toThrow("is cut short");
});

it("takes one that a killed process had just begun, and refuses one of pages that are none", async () => {
  await using dir = await temporaryDir();
  await (await openTestLog(dir.path))[Symbol.asyncDispose]();
  const { path, segmentsDir } = storeIn(dir.path);
  const head = (await readFile(path)).subarray(0, 2 * PAGE_BYTES);
  // As LMDB leaves it before the first transaction: a tree without pages has the largest number as its root.
  for (const meta of METAS) {
    for (const root of ROOTS) head.writeBigUInt64LE(2n ** 64n - 1n, meta + root);
    head.writeBigUInt64LE(1n, meta + LAST_PAGE);
  }
  await writeFile(path, head);
  await checkLogFile(path, segmentsDir);
  head.writeUInt32LE(2 ** 31, PAGE_SIZE);
  await writeFile(path, head);
  await truncate(path, 2 ** 33);
  await expect(checkLogFile(path, segmentsDir)).rejects.toThrow("is cut short");
});

it("refuses what is no log, and one that is missing beside its segments", async () => {
  await using dir = await temporaryDir();
  await withRecords(dir.path);
  const { path, segmentsDir } = storeIn(dir.path);
  await writeFile(path, "");
  await expect(checkLogFile(path, segmentsDir)).rejects.toThrow("is missing or empty");
  await writeFile(path, Buffer.alloc(10_000, 7));
  await expect(checkLogFile(path, segmentsDir)).rejects.toThrow("is not a log");
  await expect(checkLogFile(dir.path, join(dir.path, "none"))).rejects.toThrow(
    "cannot be read (EISDIR)",
  );
});
