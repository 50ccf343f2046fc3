import { SEALED_TABLES, type SealedRow, type SealedRows } from "../domain/config-store.ts";
import type { SecretBox } from "./secret-box.ts";

/** Rows read, sealed and written at a time. */
const BATCH_ROWS = 200;

export interface Reencrypted {
  readonly rewritten: number;
  readonly alreadyCurrent: number;
}

/**
 * Reseals everything under the box's current key; the box must also know the retired ones. Can be stopped and run
 * again; rows that change meanwhile are left alone (whoever changed them sealed them under the current key).
 * @throws {SealedValueError} on a row that none of the keys opens; the rows before it are done
 */
export async function reencryptAll(rows: SealedRows, box: SecretBox): Promise<Reencrypted> {
  let rewritten = 0;
  let alreadyCurrent = 0;
  for (const table of SEALED_TABLES) {
    let after = "";
    for (;;) {
      const batch = await rows.readAfter(table, after, BATCH_ROWS);
      const last = batch.at(-1);
      if (last === undefined) break;
      after = last.id;
      for (const row of batch) {
        if (box.isCurrent(row.sealed)) alreadyCurrent += 1;
        else if (await rows.replace(table, row, resealed(row, box))) rewritten += 1;
      }
    }
  }
  return { rewritten, alreadyCurrent };
}

function resealed(row: SealedRow, box: SecretBox): Uint8Array {
  return box.seal(box.open(row.sealed, row.id), row.id);
}
