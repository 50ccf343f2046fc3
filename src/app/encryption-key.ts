import { randomBytes } from "node:crypto";
import { link, readFile, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { SealedRows } from "../domain/config-store.ts";
import { systemReason, UsageError } from "../domain/errors.ts";
import type { SecretBox } from "../management/secret-box.ts";

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

/** @throws {UsageError} for a file that exists but cannot be read */
async function readOrNull(file: string): Promise<string | null> {
  try {
    return await readFile(file, "utf8");
  } catch (error) {
    const reason = systemReason(error);
    if (reason === "ENOENT") return null;
    throw new UsageError(`${file} cannot be read (${reason}): let this user read it`, {
      cause: error,
    });
  }
}

/** Makes a key and links it into place, so that only one remains when two processes start at once. */
async function make(file: string): Promise<string | null> {
  const draft = `${file}.${process.pid}`;
  // Synced before anything is encrypted under it.
  await writeFile(draft, `${randomBytes(32).toString("base64")}\n`, { mode: 0o600, flush: true });
  await link(draft, file).catch(() => undefined);
  await rm(draft, { force: true });
  return readOrNull(file);
}

/**
 * Refuses a key that is not the stored secrets': the relay would answer every webhook with 503, and encrypt new secrets under it.
 * @throws {UsageError} when the stored secrets do not open under this key
 */
export async function refuseOtherKey(
  rows: SealedRows,
  box: SecretBox,
  madeFile: string | null = null,
): Promise<void> {
  for (const table of ["endpoints", "destinations"] as const) {
    const [first] = await rows.readAfter(table, "", 1);
    if (first === undefined || box.isCurrent(first.sealed)) continue;
    if (madeFile !== null) {
      // Left there, it would be taken for the right key: by a backup, and by whoever restores one.
      await rm(madeFile, { force: true });
      throw new UsageError(
        `${madeFile} is missing, and the stored secrets are encrypted (${first.id}): restore it, or set RELAY_ENCRYPTION_KEY to the key they were stored with`,
      );
    }
    throw new UsageError(
      `the stored secrets are encrypted under another key (${first.id}): set RELAY_ENCRYPTION_KEY to that key, or restore encryption.key in the data directory; a change of keys that was interrupted is ended by relay secrets reencrypt`,
    );
  }
}
