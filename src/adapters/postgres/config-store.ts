import type { AuditEntry, ConfigStore, StoreSession } from "../../domain/config-store.ts";
import type { Database, RunSql } from "./database.ts";
import { DESTINATIONS, ENDPOINTS, PROJECTS } from "./rows.ts";
import { makeTenantTable } from "./tenant-table.ts";

const INSERT_AUDIT_SQL = `INSERT INTO audit_log (org_id, actor, action, target_id, at, detail)
  VALUES ($1, $2, $3, $4, $5, $6)`;

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
    async audit(entry: AuditEntry) {
      await run(INSERT_AUDIT_SQL, [
        entry.orgId,
        entry.actor,
        entry.action,
        entry.targetId,
        new Date(entry.atMs),
        JSON.stringify(entry.detail),
      ]);
    },
  };
}
