import { randomBytes } from "node:crypto";
import { link, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { UsageError } from "../domain/errors.ts";
import { syncDirectoryBeside } from "../adapters/lmdb/sync-files.ts";
import { readOrNull } from "./read-or-null.ts";

export interface EncryptionKey {
  readonly key: Uint8Array;
  /** File of a key that was made just now; null for any other. */
  readonly madeFile: string | null;
}

/**
 * Returns the key that encrypts stored secrets: the configured one, or the embedded one, made once in the data directory (0600).
 * @throws {UsageError} when the file in the data directory is not a key
 */
export async function loadEncryptionKey(
  configured: string | null,
  dataDir: string,
): Promise<EncryptionKey> {
  if (configured !== null) return { key: Buffer.from(configured, "base64"), madeFile: null };
  const file = join(dataDir, "encryption.key");
  const known = await readOrNull(file);
  const key = Buffer.from(known ?? (await make(file)) ?? "", "base64");
  if (key.length !== 32)
    throw new UsageError(
      `${file} does not hold a key: restore it, or set RELAY_ENCRYPTION_KEY to the key the secrets were stored with`,
    );
  return { key, madeFile: known === null ? file : null };
}

/** Makes a key and links it into place, so that only one remains when two processes start at once. */
async function make(file: string): Promise<string | null> {
  const draft = `${file}.${process.pid}`;
  // Synced before anything is encrypted under it, and its name below.
  await writeFile(draft, `${randomBytes(32).toString("base64")}\n`, { mode: 0o600, flush: true });
  await link(draft, file).catch(() => undefined);
  await rm(draft, { force: true });
  await syncDirectoryBeside(dirname(file));
  return readOrNull(file);
}
