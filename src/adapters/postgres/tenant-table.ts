import type { TenantTable } from "../../domain/config-store.ts";
import type { RunSql, SqlRow } from "./database.ts";

export interface TableLayout<Row> {
  readonly table: string;
  /** Column of each field, except `id` and `orgId`. */
  readonly columns: { readonly [Field in Exclude<keyof Row & string, "id" | "orgId">]: string };
  /** Column that names the parent; null for projects, whose parent is the organization. */
  readonly parentColumn: string | null;
  readonly toRow: (row: SqlRow) => Row;
}

/**
 * Makes every statement on a tenant's table: the one place where the organization gets into SQL. Each has `org_id = $1`
 * (or inserts it) and leaves out deleted rows.
 */
export function makeTenantTable<Row extends { readonly id: string; readonly orgId: string }>(
  run: RunSql,
  layout: TableLayout<Row>,
): TenantTable<Row> {
  const { table, parentColumn, toRow } = layout;
  const columns = layout.columns as Readonly<Record<string, string>>;
  const selected = ["id", "org_id", ...Object.values(columns)].join(", ");
  const mine = `org_id = $1 AND deleted_at IS NULL`;
  const ofParent = (index: number) => {
    if (parentColumn === null) throw new Error(`${table} has no parent`);
    return `${mine} AND ${parentColumn} = $${index}`;
  };

  async function findOne(orgId: string, id: string, locking: string): Promise<Row | null> {
    const rows = await run(
      `SELECT ${selected} FROM ${table} WHERE ${mine} AND id = $2 ${locking}`,
      [orgId, id],
    );
    return rows[0] === undefined ? null : toRow(rows[0]);
  }

  return {
    find: async (orgId, id) => findOne(orgId, id, ""),
    lock: async (orgId, id) => findOne(orgId, id, "FOR UPDATE"),
    hold: async (orgId, id) => findOne(orgId, id, "FOR SHARE"),
    async page(orgId, parentId, page) {
      const where = parentId === null ? mine : ofParent(4);
      // One statement, so that the total and the page are of one moment; a page past the end still has its total.
      const rows = await run(
        `SELECT total.count AS total, page.* FROM
           (SELECT count(*) FROM ${table} WHERE ${where}) AS total
           LEFT JOIN (SELECT ${selected} FROM ${table} WHERE ${where}
             ORDER BY created_at DESC, id DESC OFFSET $2 LIMIT $3) AS page ON true
         ORDER BY page.created_at DESC, page.id DESC`,
        [orgId, page.offset, page.limit, ...(parentId === null ? [] : [parentId])],
      );
      return {
        total: Number(rows[0]?.["total"] ?? 0),
        items: rows.filter((row) => row["id"] !== null).map(toRow),
      };
    },
    async children(orgId, parentId) {
      const rows = await run(
        `SELECT ${selected} FROM ${table} WHERE ${ofParent(2)} ORDER BY created_at, id`,
        [orgId, parentId],
      );
      return rows.map(toRow);
    },
    async insert(row) {
      const fields = Object.keys(columns);
      const values = row as Readonly<Record<string, unknown>>;
      const places = fields.map((_, index) => `$${index + 3}`).join(", ");
      await run(
        `INSERT INTO ${table} (org_id, id, ${Object.values(columns).join(", ")})
                 VALUES ($1, $2, ${places})`,
        [row.orgId, row.id, ...fields.map((field) => toSql(field, values[field]))],
      );
    },
    async update(orgId, id, changes) {
      const given = Object.entries(changes).filter(([, value]) => value !== undefined);
      if (given.length === 0) return;
      const assignments = given.map(([field], index) => `${columns[field]} = $${index + 3}`);
      await run(`UPDATE ${table} SET ${assignments.join(", ")} WHERE ${mine} AND id = $2`, [
        orgId,
        id,
        ...given.map(([field, value]) => toSql(field, value)),
      ]);
    },
    async remove(orgId, id, atMs) {
      await run(`UPDATE ${table} SET deleted_at = $3 WHERE ${mine} AND id = $2`, [
        orgId,
        id,
        new Date(atMs),
      ]);
    },
    async removeChildren(orgId, parentId, atMs) {
      await run(`UPDATE ${table} SET deleted_at = $3 WHERE ${ofParent(2)}`, [
        orgId,
        parentId,
        new Date(atMs),
      ]);
    },
  };
}

/** Converts times: they are ms in rows and timestamptz in the store. */
function toSql(field: string, value: unknown): unknown {
  return field.endsWith("AtMs") && typeof value === "number" ? new Date(value) : value;
}
