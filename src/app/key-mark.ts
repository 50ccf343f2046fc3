import { rm } from "node:fs/promises";
import type { Database } from "../adapters/postgres/database.ts";
import { ensureSetting, putSetting } from "../adapters/postgres/settings.ts";
import type { SealedRows } from "../domain/config-store.ts";
import { UsageError } from "../domain/errors.ts";
import type { SecretBox } from "../management/secret-box.ts";

/** A value sealed under the key of all secrets: tells another key while no secret is stored yet. */
export interface KeyMark {
  /** Returns the mark in the database; the first process to ask puts `make()` there. */
  ensure(make: () => Uint8Array): Promise<Uint8Array>;
  put(mark: Uint8Array): Promise<void>;
}

const MARK_NAME = "encryption_key_mark";

export function makeKeyMark(database: Database): KeyMark {
  return {
    ensure: (make) => ensureSetting(database, MARK_NAME, make),
    put: (mark) => putSetting(database, MARK_NAME, mark),
  };
}

/** Makes the box's key the one that every process must have. */
export async function markKey(mark: KeyMark, box: SecretBox): Promise<void> {
  await mark.put(sealMark(box));
}

function sealMark(box: SecretBox): Uint8Array {
  return box.seal(null, MARK_NAME);
}

/**
 * Refuses a key that is not the stored secrets': the relay would answer every webhook with 503, and encrypt new secrets under it.
 * @throws {UsageError} when the stored secrets do not open under this key, or another process has begun with another one
 */
export async function refuseOtherKey(
  rows: SealedRows,
  mark: KeyMark,
  box: SecretBox,
  madeFile: string | null = null,
): Promise<void> {
  for (const table of ["endpoints", "destinations"] as const) {
    const [first] = await rows.readAfter(table, "", 1);
    if (first !== undefined && !box.isCurrent(first.sealed))
      throw await otherKey(first.id, madeFile);
  }
  // Nothing is stored under the key that was lost.
  if (madeFile !== null) await markKey(mark, box);
  else if (!box.isCurrent(await mark.ensure(() => sealMark(box))))
    throw await otherKey("that of the first start", null);
}

async function otherKey(whose: string, madeFile: string | null): Promise<UsageError> {
  if (madeFile === null)
    return new UsageError(
      `the stored secrets are encrypted under another key (${whose}): set RELAY_ENCRYPTION_KEY to that key, or restore encryption.key in the data directory; a change of keys that was interrupted is ended by relay secrets reencrypt`,
    );
  // Left there, it would be taken for the right key: by a backup, and by whoever restores one.
  await rm(madeFile, { force: true });
  return new UsageError(
    `${madeFile} is missing, and the stored secrets are encrypted (${whose}): restore it, or set RELAY_ENCRYPTION_KEY to the key they were stored with`,
  );
}
