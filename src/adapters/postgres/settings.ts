import type { Database } from "./database.ts";

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
  await database.run(
    "INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO NOTHING",
    [name, make()],
  );
  return (await readSetting(database, name)) as Uint8Array;
}

async function readSetting(database: Database, name: string): Promise<Uint8Array | undefined> {
  const rows = await database.run("SELECT value FROM settings WHERE name = $1", [name]);
  return rows[0]?.["value"] as Uint8Array | undefined;
}

/** Stores a shared value in place of the one there was. */
export async function putSetting(
  database: Database,
  name: string,
  value: Uint8Array,
): Promise<void> {
  await database.run(
    "INSERT INTO settings (name, value) VALUES ($1, $2) ON CONFLICT (name) DO UPDATE SET value = $2",
    [name, value],
  );
}
