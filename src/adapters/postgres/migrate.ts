import { UsageError } from "../../domain/errors.ts";
import { CONFIGURATION_SQL } from "./migrations/0001-configuration.ts";
import type { Database, RunSql } from "./database.ts";

interface Migration {
  readonly name: string;
  readonly sql: string;
}

/** In this order, forever: a migration that was released is never changed. */
const MIGRATIONS: readonly Migration[] = [{ name: "0001-configuration", sql: CONFIGURATION_SQL }];

/** Any constant that all relays that migrate one database agree on. */
const LOCK_KEY = 7_310_579_411;
/** The first that takes `EXECUTE FUNCTION` in a trigger, and the first that was seen to work. */
const MIN_VERSION = 11;
/** Encodings that take every text: without one (`SQL_ASCII`) the server keeps the bytes as they come. */
const WHOLE_ENCODINGS = new Set(["UTF8", "SQL_ASCII"]);

const LOCK_SQL = "SELECT pg_advisory_xact_lock($1)";
const EXISTS_LEDGER_SQL = "SELECT to_regclass('relay_migrations') IS NOT NULL AS made";
const CREATE_LEDGER_SQL = `
  CREATE TABLE IF NOT EXISTS relay_migrations (name text PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())`;
const SELECT_APPLIED_SQL = "SELECT name FROM relay_migrations";
const INSERT_APPLIED_SQL = "INSERT INTO relay_migrations (name) VALUES ($1)";
const SELECT_VERSION_SQL =
  "SELECT current_setting('server_version') AS name, current_setting('server_version_num')::int / 10000 AS major";
const SELECT_ENCODING_SQL = "SELECT current_setting('server_encoding') AS encoding";

/**
 * Brings the schema up to date; returns the names of what was applied. Safe to run twice and from several processes:
 * everything happens in one transaction under an advisory lock, so a second process waits and finds nothing to do.
 * (A lock of the transaction, not of the session: all connections to an embedded PGlite are one session.)
 * @throws {UsageError} when a new database cannot hold every text, or its server is too old
 */
export async function migrate(database: Database): Promise<readonly string[]> {
  return database.transaction(async (run) => {
    await run(LOCK_SQL, [LOCK_KEY]);
    await makeLedger(run);
    const done = new Set((await run(SELECT_APPLIED_SQL, [])).map((row) => row["name"]));
    const missing = MIGRATIONS.filter((migration) => !done.has(migration.name));
    if (done.size === 0) {
      await refuseOlderServer(run);
      await refuseOtherEncoding(run);
    }
    for (const migration of missing) {
      await run(migration.sql);
      await run(INSERT_APPLIED_SQL, [migration.name]);
    }
    return missing.map((migration) => migration.name);
  });
}

/** Looks first: a user that may only read and write rows is refused even an `IF NOT EXISTS`. */
async function makeLedger(run: RunSql): Promise<void> {
  const [found] = await run(EXISTS_LEDGER_SQL, []);
  if (found?.["made"] === true) return;
  await run(CREATE_LEDGER_SQL, []);
}

async function refuseOlderServer(run: RunSql): Promise<void> {
  const [found] = await run(SELECT_VERSION_SQL, []);
  if (Number(found?.["major"]) >= MIN_VERSION) return;
  throw new UsageError(
    `the PostgreSQL of DATABASE_URL is version ${String(found?.["name"])}: ${MIN_VERSION} or newer is needed`,
  );
}

/** In any other, a write of a name with a character that it lacks would fail; a database in use may have none of these. */
async function refuseOtherEncoding(run: RunSql): Promise<void> {
  const [found] = await run(SELECT_ENCODING_SQL, []);
  const encoding = String(found?.["encoding"]);
  if (WHOLE_ENCODINGS.has(encoding)) return;
  throw new UsageError(
    `the database of DATABASE_URL has the encoding ${encoding}, which lacks most of the characters of names: make one with TEMPLATE template0 ENCODING 'UTF8'`,
  );
}
