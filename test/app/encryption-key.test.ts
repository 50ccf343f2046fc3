import { mkdirSync, readdirSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, it } from "vitest";
import { loadEncryptionKey } from "../../src/app/encryption-key.ts";
import { UsageError } from "../../src/domain/errors.ts";
import { temporaryDir } from "../support/log-lmdb.ts";
import { SyncedDisk } from "../support/synced-disk.ts";

it("a key that was made is there after a power cut, before anything is encrypted under it: only its content was synced, not its name", async () => {
  await using dir = await temporaryDir();
  const dataDir = join(dir.path, "data");
  mkdirSync(dataDir);
  using disk = new SyncedDisk(dataDir);
  const { madeFile } = await loadEncryptionKey(null, dataDir);
  expect(madeFile).toBe(join(dataDir, "encryption.key"));
  const left = join(dir.path, "left");
  disk.leave(left);
  expect(readdirSync(left)).toEqual(["encryption.key"]);
  expect(statSync(madeFile!).mode & 0o777).toBe(0o600);
});

it("a key that is configured is used, and none is made beside it", async () => {
  await using dir = await temporaryDir();
  const key = Buffer.alloc(32, 7);
  const loaded = await loadEncryptionKey(key.toString("base64"), dir.path);
  expect(loaded).toEqual({ key, madeFile: null });
  expect(readdirSync(dir.path)).toEqual([]);
});

it.each(["", "\0".repeat(45)])(
  "a key file that a power cut emptied (%j) is refused, not replaced",
  async (content) => {
    await using dir = await temporaryDir();
    writeFileSync(join(dir.path, "encryption.key"), content);
    await expect(loadEncryptionKey(null, dir.path)).rejects.toThrow(UsageError);
    expect(readdirSync(dir.path)).toEqual(["encryption.key"]);
  },
);
