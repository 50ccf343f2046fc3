import type { ApiKeyRow, ApiKeyStore } from "../../domain/config-store.ts";
import type { Database, SqlRow } from "./database.ts";
import { toMs } from "./rows.ts";

const COLUMNS = "id, org_id, public_part, scopes, created_at, revoked_at";

/** Keys come from the command line and the environment: whoever makes or revokes one has access to the store. */
const ACTOR = "operator";

const SELECT_ORGANIZATION_SQL = "SELECT id FROM organizations WHERE name = $1";
const INSERT_ORGANIZATION_SQL = `
  INSERT INTO organizations (id, name, created_at) VALUES ($1, $2, $3)
  ON CONFLICT (name) DO NOTHING`;
const SELECT_KEY_SQL = `SELECT ${COLUMNS} FROM api_keys WHERE key_hash = $1`;
const SELECT_KEYS_SQL = `SELECT ${COLUMNS} FROM api_keys WHERE org_id = $1 ORDER BY created_at DESC, id DESC`;
const SET_PUBLIC_PART_SQL = "UPDATE api_keys SET public_part = $2 WHERE id = $1";
/** Inserts a key with its audit row, in one statement and so in one transaction. */
const INSERT_KEY_SQL = `
  WITH made AS (
    INSERT INTO api_keys (${COLUMNS}, key_hash) VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING id, org_id, scopes, created_at
  )
  INSERT INTO audit_log (org_id, actor, action, target_id, at, detail)
  SELECT org_id, '${ACTOR}', 'key.create', id, created_at, jsonb_build_object('scopes', scopes) FROM made`;
const REVOKE_KEY_SQL = `
  WITH revoked AS (
    UPDATE api_keys SET revoked_at = $3 WHERE org_id = $1 AND id = $2 AND revoked_at IS NULL RETURNING id, org_id, revoked_at
  ), noted AS (
    INSERT INTO audit_log (org_id, actor, action, target_id, at, detail)
    SELECT org_id, '${ACTOR}', 'key.revoke', id, revoked_at, '{}' FROM revoked
  )
  SELECT id FROM revoked`;

/** Makes the store of organizations and API keys; of a key itself, only its SHA-256 is stored. */
export function makeApiKeyStore(database: Database): ApiKeyStore {
  const { run } = database;
  const findOrganization = async (name: string) => {
    const rows = await run(SELECT_ORGANIZATION_SQL, [name]);
    return (rows[0]?.["id"] as string | undefined) ?? null;
  };
  return {
    findOrganization,
    async ensureOrganization(name, newId, atMs) {
      await run(INSERT_ORGANIZATION_SQL, [newId, name, new Date(atMs)]);
      const id = await findOrganization(name);
      if (id === null) throw new Error(`organization ${name} was not stored`);
      return id;
    },
    async insertKey(row, hash) {
      await run(INSERT_KEY_SQL, [
        row.id,
        row.orgId,
        row.publicPart,
        row.scopes,
        new Date(row.createdAtMs),
        row.revokedAtMs === null ? null : new Date(row.revokedAtMs),
        hash,
      ]);
    },
    async findKey(hash) {
      const rows = await run(SELECT_KEY_SQL, [hash]);
      return rows[0] === undefined ? null : toKey(rows[0]);
    },
    async setPublicPart(keyId, publicPart) {
      await run(SET_PUBLIC_PART_SQL, [keyId, publicPart]);
    },
    async listKeys(orgId) {
      const rows = await run(SELECT_KEYS_SQL, [orgId]);
      return rows.map(toKey);
    },
    async revokeKey(orgId, keyId, atMs) {
      const rows = await run(REVOKE_KEY_SQL, [orgId, keyId, new Date(atMs)]);
      return rows.length > 0;
    },
  };
}

function toKey(row: SqlRow): ApiKeyRow {
  return {
    id: row["id"] as string,
    orgId: row["org_id"] as string,
    publicPart: row["public_part"] as string,
    scopes: row["scopes"] as ApiKeyRow["scopes"],
    createdAtMs: toMs(row["created_at"]),
    revokedAtMs: row["revoked_at"] === null ? null : toMs(row["revoked_at"]),
  };
}
