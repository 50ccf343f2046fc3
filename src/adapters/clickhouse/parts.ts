/** A table's rows of one day, or some of them, sorted by the key, as ClickHouse has them on disk. */
export interface Part {
  readonly table: "events" | "attempts";
  readonly day: string;
  readonly name: string;
  /** Each insert is a block; a merged part has all blocks of its day from its first to its last. */
  readonly lastBlock: number;
  /** Whether it was merged and so holds no row twice; a part as inserted rarely does either. */
  readonly isCollapsed: boolean;
  /** Bounds of its rows' event times, in ms since the epoch: none is before `fromMs`, none at or after `untilMs`. */
  readonly fromMs: number;
  readonly untilMs: number;
  /** Where the table is stored, and when its server started, in s: blocks may be numbered anew when either changes. */
  readonly storedIn: string;
  readonly startedS: number;
}

/**
 * The parts, largest first, of tables whose blocks are numbered in the order in which they become visible. Those of a
 * replicated table are not, and each replica has parts of its own.
 */
export const SELECT_PARTS = `
  SELECT table, partition_id AS day, name, max_block_number AS last_block, level > 0 AS is_collapsed,
    toUnixTimestamp(min_time) AS first_s, toUnixTimestamp(max_time) AS last_s,
    splitByChar('/', path)[-3] AS stored_in, toUnixTimestamp(now()) - uptime() AS started_s
  FROM system.parts
  WHERE active AND database = currentDatabase() AND table IN ('events', 'attempts') AND engine = 'ReplacingMergeTree'
  ORDER BY table, rows DESC, name`;

export interface PartJson {
  readonly table: "events" | "attempts";
  readonly day: string;
  readonly name: string;
  readonly last_block: number;
  readonly is_collapsed: number;
  readonly first_s: number;
  readonly last_s: number;
  readonly stored_in: string;
  readonly started_s: number;
}

export function toPart(row: PartJson): Part {
  return {
    table: row.table,
    day: row.day,
    name: row.name,
    lastBlock: row.last_block,
    isCollapsed: row.is_collapsed === 1,
    fromMs: row.first_s * 1_000,
    // A server that does not know a part's times says 0.
    untilMs: row.last_s === 0 ? Infinity : (row.last_s + 1) * 1_000,
    storedIn: row.stored_in,
    startedS: row.started_s,
  };
}

/** Server start times, given in whole seconds, that are no further apart than this are the same. */
const SAME_START_S = 2;

/** Returns whether the blocks of both are numbered in one sequence, so that equal names are the same part. */
export function isOfSameLife(
  one: Pick<Part, "storedIn" | "startedS">,
  other: Pick<Part, "storedIn" | "startedS">,
): boolean {
  return one.storedIn === other.storedIn && Math.abs(one.startedS - other.startedS) <= SAME_START_S;
}
