import type { SchemaOptions, SkipIndex, Table } from "./schema.ts";

/** How many batches' tokens a table remembers, to drop a repeated insert. */
const REMEMBERED_BATCHES = 10_000;

/**
 * A day that has received nothing for this long is merged into one part: FINAL then has nothing to do there and reads none of the key's
 * columns (an eighth of the bytes; 18 ms instead of 63 for the facets of 30,000 events in 7 parts).
 */
const MERGE_DAY_AFTER_SECONDS = 4 * 3_600;

/** Returns the statements that create a table; each can be repeated, even by two processes at once. */
export function createTable(table: Table, options: SchemaOptions): readonly string[] {
  const { cluster } = options;
  const local = localName(table, options);
  const indexes = table.indexes === "" ? "" : `, ${table.indexes}`;
  const engine =
    cluster === undefined
      ? "ReplacingMergeTree"
      : `ReplicatedReplacingMergeTree('/clickhouse/tables/{shard}/{database}/${local}', '{replica}')`;
  const window =
    cluster === undefined
      ? `non_replicated_deduplication_window = ${REMEMBERED_BATCHES}`
      : `replicated_deduplication_window = ${REMEMBERED_BATCHES}`;
  const statements = [
    `CREATE TABLE IF NOT EXISTS ${local}${onCluster(options)} (${table.columns}${indexes})
     ENGINE = ${engine}
     PARTITION BY toDate(${table.day})
     ORDER BY ${table.orderBy}
     TTL ${retention(table, options)}
     SETTINGS ttl_only_drop_parts = 1, materialize_ttl_recalculate_only = 1, ${window},
       fsync_after_insert = 1, fsync_part_directory = 1,
       min_age_to_force_merge_seconds = ${MERGE_DAY_AFTER_SECONDS}, min_age_to_force_merge_on_partition_only = 1,
       ${table.settings}`,
  ];
  if (cluster !== undefined)
    statements.push(
      `CREATE TABLE IF NOT EXISTS ${table.name}${onCluster(options)} AS ${local}
       ENGINE = Distributed('${cluster}', currentDatabase(), ${local}, ${table.shardBy})`,
    );
  return statements;
}

/** Returns the statements that make a table keep counts with each part; merges rebuild them, since they drop rows. */
export function keepCounts(table: Table, options: SchemaOptions): readonly string[] {
  if (table.countedBy === null) return [];
  const columns = table.countedBy.join(", ");
  const alter = alterTable(table, options);
  return [
    `${alter} MODIFY SETTING deduplicate_merge_projection_mode = 'rebuild'`,
    `${alter} ADD PROJECTION IF NOT EXISTS facets (SELECT ${columns}, count() GROUP BY ${columns})`,
    `${alter} MATERIALIZE PROJECTION facets SETTINGS mutations_sync = 0`,
  ];
}

/**
 * How many parts of similar size are merged into one (5 by default). A merge rebuilds all filters of its rows, which costs more than
 * their insert did: this width takes a quarter off the engine's time per event under load, and leaves up to twice the parts in a day
 * that is still being written to.
 */
const MERGE_WIDTH = 10;

/** Returns the statements that have rows merged less often. */
export function mergeSeldom(table: Table, options: SchemaOptions): readonly string[] {
  return [`${alterTable(table, options)} MODIFY SETTING merge_selector_base = ${MERGE_WIDTH}`];
}

/**
 * Returns the statements that keep the details of each row in one column; existing parts get it in the background and compute it from
 * the other columns until then. A distributed table fills in what an insert leaves out by itself, so it needs the column as well.
 */
export function keepDetails(table: Table, options: SchemaOptions): readonly string[] {
  if (table.details === null) return [];
  const texts = Object.values(table.details).join(", ");
  const add = `ADD COLUMN IF NOT EXISTS details Array(Nullable(String)) DEFAULT [${texts}] CODEC(ZSTD(1))`;
  const alter = alterTable(table, options);
  const statements = [
    `${alter} ${add}`,
    `${alter} MATERIALIZE COLUMN details SETTINGS mutations_sync = 0`,
  ];
  if (options.cluster !== undefined)
    statements.push(`ALTER TABLE ${table.name}${onCluster(options)} ${add}`);
  return statements;
}

/** Returns the statements that replace the skip index `former` by others, which existing parts get in the background. */
export function replaceIndex(
  table: Table,
  former: string,
  indexes: readonly SkipIndex[],
  options: SchemaOptions,
): readonly string[] {
  const alter = alterTable(table, options);
  const added = indexes.map(
    ({ name, definition }) => `ADD INDEX IF NOT EXISTS ${name} ${definition}`,
  );
  const made = indexes.map(({ name }) => `MATERIALIZE INDEX ${name}`);
  return [
    `${alter} ${added.join(", ")}`,
    `${alter} ${made.join(", ")} SETTINGS mutations_sync = 0`,
    ...dropIndex(table, former, options),
  ];
}

/**
 * Returns the statements that drop a skip index. That cannot be done while it is still being built for existing parts, so that work is
 * stopped first.
 */
export function dropIndex(table: Table, index: string, options: SchemaOptions): readonly string[] {
  return [
    `KILL MUTATION${onCluster(options)} WHERE database = currentDatabase() AND table = '${localName(table, options)}'
       AND NOT is_done AND match(command, 'MATERIALIZE INDEX ${index}\\\\b') SYNC`,
    `${alterTable(table, options)} DROP INDEX IF EXISTS ${index} SETTINGS mutations_sync = 0, alter_sync = 0`,
  ];
}

/** Returns the TTL, by which a day's parts are dropped whole once their last row is older than the retention. */
export function retention(table: Table, options: SchemaOptions): string {
  return `toDateTime(${table.day}) + toIntervalDay(${options.retentionDays})`;
}

function alterTable(table: Table, options: SchemaOptions): string {
  return `ALTER TABLE ${localName(table, options)}${onCluster(options)}`;
}

export function localName(table: Table, options: SchemaOptions): string {
  return options.cluster === undefined ? table.name : `${table.name}_local`;
}

export function onCluster(options: SchemaOptions): string {
  return options.cluster === undefined ? "" : ` ON CLUSTER '${options.cluster}'`;
}
