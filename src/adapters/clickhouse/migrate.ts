import { setTimeout as pause } from "node:timers/promises";
import {
  ClickHouseError,
  type ClickHouseClient,
  type ClickHouseSettings,
} from "@clickhouse/client";
import { selectRows } from "./ask.ts";
import {
  createTable,
  dropIndex,
  keepCounts,
  keepDetails,
  localName,
  mergeSeldom,
  onCluster,
  replaceIndex,
  retention,
} from "./ddl.ts";
import { refuseOlderServer } from "./refuse-older-server.ts";
import { requireRoom } from "./require-room.ts";
import {
  COARSE_TEXT_FILTER,
  EVENTS,
  FINE_TEXT_FILTER,
  FIRST_LEAVES_FILTER,
  FORMER_LEAVES_FILTER,
  FORMER_TEXT_FILTERS,
  LEAVES_FILTERS,
  TABLES,
  type SchemaOptions,
} from "./schema.ts";

/** A newer relay has migrated this database. */
export class NewerSchemaError extends Error {
  readonly code = "newer_schema";
}

interface Migration {
  readonly version: number;
  readonly name: string;
  readonly statements: (options: SchemaOptions) => readonly string[];
}

/** In order; one that has landed is never changed. Every statement can be repeated, so two processes may migrate at once. */
const MIGRATIONS: readonly Migration[] = [
  {
    version: 1,
    name: "events, attempts, fanouts",
    statements: (options) => TABLES.flatMap((table) => createTable(table, options)),
  },
  {
    version: 2,
    name: "counts for facets",
    statements: (options) => TABLES.flatMap((table) => keepCounts(table, options)),
  },
  {
    version: 3,
    name: "leaf filters of sixteen granules",
    statements: (options) =>
      replaceIndex(EVENTS, FIRST_LEAVES_FILTER.name, [FORMER_LEAVES_FILTER], options),
  },
  {
    version: 4,
    name: "leaf filters in eight shards",
    statements: (options) =>
      replaceIndex(EVENTS, FORMER_LEAVES_FILTER.name, LEAVES_FILTERS, options),
  },
  {
    version: 5,
    name: "text filters that know what is no UTF-8",
    statements: (options) => [
      ...replaceIndex(EVENTS, FORMER_TEXT_FILTERS.coarse.name, [COARSE_TEXT_FILTER], options),
      ...replaceIndex(EVENTS, FORMER_TEXT_FILTERS.fine.name, [FINE_TEXT_FILTER], options),
    ],
  },
  {
    version: 6,
    name: "events are merged less often",
    statements: (options) => mergeSeldom(EVENTS, options),
  },
  {
    version: 7,
    name: "what is shown of one row in one column",
    statements: (options) => TABLES.flatMap((table) => keepDetails(table, options)),
  },
  {
    // The tables themselves do not change, but everything that reads them must know.
    version: 8,
    name: "fan-outs stand among the attempts",
    statements: () => [],
  },
];

/** Returns all statements of all migrations, in order, for those who create the tables by hand. */
export function schemaStatements(options: SchemaOptions): readonly string[] {
  return MIGRATIONS.flatMap((migration) => migration.statements(options));
}

const CREATE_LEDGER = `
  CREATE TABLE IF NOT EXISTS schema_migrations%CLUSTER% (version UInt32, name String, applied_at DateTime64(3, 'UTC') DEFAULT now64(3))
  ENGINE = %ENGINE% ORDER BY version`;
const EXISTS_LEDGER = "EXISTS TABLE schema_migrations";
const SELECT_APPLIED = "SELECT DISTINCT version FROM schema_migrations";
const SELECT_TABLES = `
  SELECT name, create_table_query AS made, engine_full AS engine FROM system.tables
  WHERE database = currentDatabase() AND name IN {names:Array(String)}`;
/** What migrations have replaced by others. */
const FORMER_INDEXES = [
  FIRST_LEAVES_FILTER,
  FORMER_LEAVES_FILTER,
  ...Object.values(FORMER_TEXT_FILTERS),
];

/**
 * Brings the database to this version's schema and the given retention. Safe to run twice and from two processes.
 * @throws {NewerSchemaError} when a newer relay has migrated this database
 * @throws {UsageError} when the server is too old
 * @throws {Error} when there is a change to make and its disk is too full for it: nothing more is changed then
 */
export async function migrateClickHouse(
  client: ClickHouseClient,
  options: SchemaOptions,
): Promise<{ readonly applied: readonly string[] }> {
  await refuseOlderServer(client);
  await makeLedger(client, options);
  const done = await appliedVersions(client);
  const newest = MIGRATIONS.at(-1)?.version ?? 0;
  for (const version of done)
    if (version > newest)
      throw new NewerSchemaError(
        `the ClickHouse schema is at version ${version}, this relay knows ${newest}: start the newer relay`,
      );
  const applied: string[] = [];
  for (const migration of MIGRATIONS) {
    if (done.has(migration.version)) continue;
    if (!(await carryOut(client, migration, options))) continue;
    await client.insert({
      table: "schema_migrations",
      values: [{ version: migration.version, name: migration.name }],
      format: "JSONEachRow",
      clickhouse_settings: { async_insert: 0 },
    });
    applied.push(migration.name);
  }
  const tables = await tablesAsTheyAre(client, options);
  await dropFormerIndexes(client, tables, options);
  await setRetention(client, tables, options);
  return { applied };
}

/** By name: the statement that would make the table as it is now, and the part of it that begins with the engine. */
type TablesAsTheyAre = ReadonlyMap<string, { readonly made: string; readonly engine: string }>;

async function tablesAsTheyAre(
  client: ClickHouseClient,
  options: SchemaOptions,
): Promise<TablesAsTheyAre> {
  const names = TABLES.map((table) => localName(table, options));
  const rows = await selectRows<{ name: string; made: string; engine: string }>(
    client,
    SELECT_TABLES,
    { names },
  );
  return new Map(rows.map((row) => [row.name, row]));
}

/**
 * Drops what a migration has left: of two processes that migrate at once, the slower one may add an index anew that the other has
 * already replaced, and then be ended.
 */
async function dropFormerIndexes(
  client: ClickHouseClient,
  tables: TablesAsTheyAre,
  options: SchemaOptions,
): Promise<void> {
  const events = tables.get(localName(EVENTS, options));
  for (const { name } of FORMER_INDEXES) {
    if (events?.made.includes(`INDEX ${name} `) !== true) continue;
    for (const query of dropIndex(EVENTS, name, options)) await change(client, query);
  }
}

/** Looks first: a user that may only read and write rows is refused even an `IF NOT EXISTS`. */
async function makeLedger(client: ClickHouseClient, options: SchemaOptions): Promise<void> {
  const [row] = await selectRows<{ result: number }>(client, EXISTS_LEDGER);
  if (row?.result === 1) return;
  const engine =
    options.cluster === undefined
      ? "ReplacingMergeTree"
      : "ReplicatedReplacingMergeTree('/clickhouse/tables/{database}/schema_migrations', '{shard}-{replica}')";
  const query = CREATE_LEDGER.replace("%CLUSTER%", onCluster(options)).replace("%ENGINE%", engine);
  await change(client, query);
}

/** Runs a statement that makes or changes a table. */
async function change(
  client: ClickHouseClient,
  query: string,
  settings: ClickHouseSettings = {},
): Promise<void> {
  await requireRoom(client);
  await client.command({ query, clickhouse_settings: settings });
}

const TRIES = 5;
const PAUSE_MS = 500;

/**
 * Retries: of two processes that migrate at once, one may drop what the other is about to fill.
 * @returns false if another process has meanwhile done it
 */
async function carryOut(
  client: ClickHouseClient,
  { version, statements }: Migration,
  options: SchemaOptions,
): Promise<boolean> {
  for (let tries = 1; ; tries += 1)
    try {
      for (const query of statements(options)) await change(client, query);
      return true;
    } catch (error) {
      if (!(error instanceof ClickHouseError)) throw error;
      if ((await appliedVersions(client)).has(version)) return false;
      if (tries === TRIES) throw error;
      await pause(PAUSE_MS * tries);
    }
}

async function appliedVersions(client: ClickHouseClient): Promise<ReadonlySet<number>> {
  const known = await selectRows<{ version: number }>(client, SELECT_APPLIED);
  return new Set(known.map((row) => row.version));
}

async function setRetention(
  client: ClickHouseClient,
  tables: TablesAsTheyAre,
  options: SchemaOptions,
): Promise<void> {
  for (const table of TABLES) {
    const name = localName(table, options);
    if (tables.get(name)?.engine.includes(`toIntervalDay(${options.retentionDays})`)) continue;
    const query = `ALTER TABLE ${name}${onCluster(options)} MODIFY TTL ${retention(table, options)}`;
    await change(client, query, { alter_sync: "0" });
  }
}
