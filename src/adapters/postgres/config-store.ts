import type { AuditEntry, ConfigStore, StoreSession } from "../../domain/config-store.ts";
import type { Database, RunSql } from "./database.ts";
import { DESTINATIONS, ENDPOINTS, PROJECTS } from "./rows.ts";
import { makeTenantTable } from "./tenant-table.ts";

const INSERT_AUDIT_SQL = `INSERT INTO audit_log (org_id, actor, action, target_id, at, detail)
  SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::timestamptz[], $6::jsonb[])`;

/** Makes the management API's view of the store: every row belongs to the organization that asks. */
export function makeConfigStore(database: Database): ConfigStore {
  return {
    ...makeSession(database.run),
    write: async (work) => database.transaction(async (run) => work(makeSession(run))),
  };
}

function makeSession(run: RunSql): StoreSession {
  return {
    projects: makeTenantTable(run, PROJECTS),
    endpoints: makeTenantTable(run, ENDPOINTS),
    destinations: makeTenantTable(run, DESTINATIONS),
    async audit(entries: readonly AuditEntry[]) {
      await run(INSERT_AUDIT_SQL, [
        entries.map((entry) => entry.orgId),
        entries.map((entry) => entry.actor),
        entries.map((entry) => entry.action),
        entries.map((entry) => entry.targetId),
        entries.map((entry) => new Date(entry.atMs)),
        entries.map((entry) => JSON.stringify(entry.detail)),
      ]);
    },
  };
}
