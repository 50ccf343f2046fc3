import type { Database } from "./database.ts";

const SELECT_SETTING_SQL = "SELECT value FROM settings WHERE name = $1";
const INSERT_SETTING_SQL =
  "INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING";
const PUT_SETTING_SQL =
  "INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = $2";

/**
 * Returns a value that all processes share and that is made once: the first to ask stores `make()`, the others read it. Looks first: a
 * process must be able to start while the store takes no writes.
 */
export async function ensureSetting(
  database: Database,
  name: string,
  make: () => Uint8Array,
): Promise<Uint8Array> {
  const known = await readSetting(database, name);
  if (known !== undefined) return known;
  await database.run(INSERT_SETTING_SQL, [name, make()]);
  return (await readSetting(database, name)) as Uint8Array;
}

async function readSetting(database: Database, name: string): Promise<Uint8Array | undefined> {
  const rows = await database.run(SELECT_SETTING_SQL, [name]);
  return rows[0]?.["value"] as Uint8Array | undefined;
}

/** Stores a shared value in place of the one there was. */
export async function putSetting(
  database: Database,
  name: string,
  value: Uint8Array,
): Promise<void> {
  await database.run(PUT_SETTING_SQL, [name, value]);
}
