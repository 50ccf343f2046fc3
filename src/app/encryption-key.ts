import { randomBytes } from "node:crypto";
import { link, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { UsageError } from "../domain/errors.ts";

/**
 * The key that encrypts stored secrets: the configured one, or the embedded one, made once in the data directory (0600).
 * @throws {UsageError} when the file in the data directory is not a key
 */
export async function loadEncryptionKey(
  configured: string | null,
  dataDir: string,
): Promise<Uint8Array> {
  if (configured !== null) return Buffer.from(configured, "base64");
  const file = join(dataDir, "encryption.key");
  const key = Buffer.from(await readOrMake(file), "base64");
  if (key.length !== 32)
    throw new UsageError(
      `${file} does not hold a key: restore it, or set RELAY_ENCRYPTION_KEY to the key the secrets were stored with`,
    );
  return key;
}

/** Linked into place, so that of two processes that start at once one key stays. */
async function readOrMake(file: string): Promise<string> {
  const draft = `${file}.${process.pid}`;
  try {
    return await readFile(file, "utf8");
  } catch {
    await writeFile(draft, `${randomBytes(32).toString("base64")}\n`, { mode: 0o600 });
    await link(draft, file).catch(() => undefined);
    await rm(draft, { force: true });
    return readFile(file, "utf8");
  }
}
