import { rm } from "node:fs/promises";
import type { Database } from "../adapters/postgres/database.ts";
import { ensureSetting, putSetting } from "../adapters/postgres/settings.ts";
import { SEALED_TABLES, type SealedRows } from "../domain/config-store.ts";
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
 * A key that was made just now is the right one while nothing is stored, unless another process runs with the one that was lost.
 * @throws {UsageError} when the stored secrets do not open under this key, or another process has begun with another one
 */
export async function refuseOtherKey(
  rows: SealedRows,
  mark: KeyMark,
  box: SecretBox,
  {
    madeFile,
    isAttached,
  }: {
    /** File of a key that was made at this start, or null. */
    readonly madeFile: string | null;
    /** Whether the database belongs to a relay that runs. */
    readonly isAttached: boolean;
  },
): Promise<void> {
  let isAnyStored = false;
  for (const table of SEALED_TABLES) {
    const [first] = await rows.readAfter(table, "", 1);
    if (first === undefined) continue;
    isAnyStored = true;
    if (!box.isCurrent(first.sealed)) throw await otherKey(first.id, madeFile);
  }
  if (madeFile !== null && !isAttached) return markKey(mark, box);
  if (box.isCurrent(await mark.ensure(() => sealMark(box)))) return;
  throw isAnyStored ? await otherKey("not all of them", madeFile) : await otherMark(madeFile);
}

async function otherKey(which: string, madeFile: string | null): Promise<UsageError> {
  if (madeFile === null)
    return new UsageError(
      `the stored secrets are encrypted under another key (${which}): set RELAY_ENCRYPTION_KEY to that key, or restore encryption.key in the data directory; a change of keys that was interrupted is ended by relay secrets reencrypt`,
    );
  await removeMade(madeFile);
  return new UsageError(
    `${madeFile} is missing, and the stored secrets are encrypted (${which}): restore it, or set RELAY_ENCRYPTION_KEY to the key they were stored with`,
  );
}

/** Nothing is stored, but another process may run with the key that is marked. */
async function otherMark(madeFile: string | null): Promise<UsageError> {
  if (madeFile === null)
    return new UsageError(
      "no secret is stored yet, but the relay was started with another key before: set RELAY_ENCRYPTION_KEY to that key, or restore its encryption.key; to go on with this one, stop every process and run relay secrets reencrypt with RELAY_ENCRYPTION_KEY set to it and --old-key-file naming a file that holds it, too",
    );
  await removeMade(madeFile);
  return new UsageError(
    `${madeFile} is missing, and the running relay has the key that it held: restore it, or set RELAY_ENCRYPTION_KEY to that key; if it is lost, stop the relay and start it again`,
  );
}

/** Left there, it would be taken for the right key: by a backup, and by whoever restores one. */
async function removeMade(file: string): Promise<void> {
  await rm(file, { force: true });
}
