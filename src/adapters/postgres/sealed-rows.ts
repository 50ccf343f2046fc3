import type { SealedRows } from "../../domain/config-store.ts";
import type { Database } from "./database.ts";

/** Makes access to the sealed columns, across organizations; only a change of the encryption key needs it. */
export function makeSealedRows(database: Database): SealedRows {
  return {
    async readAfter(table, afterId, limit) {
      const rows = await database.run(
        `SELECT id, sealed FROM ${table} WHERE id > $1 ORDER BY id LIMIT $2`,
        [afterId, limit],
      );
      return rows.map((row) => ({
        id: row["id"] as string,
        sealed: row["sealed"] as Uint8Array,
      }));
    },
    async replace(table, row, sealed) {
      const changed = await database.run(
        `UPDATE ${table} SET sealed = $3 WHERE id = $1 AND sealed = $2 RETURNING id`,
        [row.id, row.sealed, sealed],
      );
      return changed.length > 0;
    },
  };
}
