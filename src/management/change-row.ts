import type { StoreSession } from "../domain/config-store.ts";
import { noteWrite } from "./audit.ts";
import type { Actor } from "./management.ts";
import { found } from "./not-found.ts";
import type { ManagementPorts } from "./ports.ts";

/** What is needed of a table whose rows tell when they were last changed. */
interface ChangeableTable<Row> {
  lock(orgId: string, id: string): Promise<Row | null>;
  update(orgId: string, id: string, changes: Partial<Row>): Promise<void>;
}

/** Returns what is to be changed of a locked row. @param atMs the time of the change */
type Decide<Row> = (row: Row, atMs: number) => Partial<Row>;

/**
 * Makes the function that locks a row, changes it and audits the change, all or nothing; it writes nothing when nothing
 * changes, and returns the row as it is then.
 */
export function makeChangeRow<Row extends { readonly updatedAtMs: number }>(
  { store, now }: Pick<ManagementPorts, "store" | "now">,
  kind: "endpoint" | "destination",
  tableOf: (session: StoreSession) => ChangeableTable<Row>,
): (actor: Actor, id: string, action: string, decide: Decide<Row>) => Promise<Row> {
  return (actor, id, action, decide) =>
    store.write(async (session) => {
      const table = tableOf(session);
      const row = found(await table.lock(actor.orgId, id), kind);
      const atMs = now();
      const changes = decide(row, atMs);
      const fields = Object.keys(changes);
      if (fields.length === 0) return row;
      // A clock that was set back must not make an update look older than the one before.
      const written = { ...changes, updatedAtMs: Math.max(atMs, row.updatedAtMs) };
      await table.update(actor.orgId, id, written);
      await noteWrite(session, actor, action, id, atMs, { fields });
      return { ...row, ...written };
    });
}
