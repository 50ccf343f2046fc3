import { readFile, stat, truncate, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, it } from "vitest";
import { checkLogFile } from "../../../src/adapters/lmdb/check-log-file.ts";
import { openStore } from "../../../src/adapters/lmdb/store.ts";
import { record } from "../../support/log-consumer.ts";
import { openTestLog, storeIn, temporaryDir } from "../../support/log-lmdb.ts";

const PAGE_BYTES = 4_096;

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
  // Pages that the newest of the two meta pages counts, but that were never written.
  const head = await readFile(path);
  const counted = (meta: number) => head.readBigUInt64LE(meta + 24 + 120);
  for (const meta of [0, PAGE_BYTES]) head.writeBigUInt64LE(counted(meta) + 20n, meta + 24 + 120);
  await writeFile(path, head);
  await checkLogFile(path, segmentsDir);
  expect((await stat(path)).size).toBe(head.length);
});

it("refuses what is no log, and one that is missing beside its segments", async () => {
  await using dir = await temporaryDir();
  await withRecords(dir.path);
  const { path, segmentsDir } = storeIn(dir.path);
  await writeFile(path, "");
  await expect(checkLogFile(path, segmentsDir)).rejects.toThrow("is missing or empty");
  await writeFile(path, Buffer.alloc(10_000, 7));
  await expect(checkLogFile(path, segmentsDir)).rejects.toThrow("is not a log");
  await expect(checkLogFile(dir.path, join(dir.path, "none"))).rejects.toThrow("cannot be read");
});
