import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import type * as Chdb from "chdb";
import type { ChdbResult, Session } from "chdb";
import { messageOf } from "../../domain/thrown.ts";

/** Rows as the engine counted them while it wrote. */
export interface RawInsertResult {
  readonly rowsWritten: number;
  readonly bytesWritten: number;
}

/** chDB as loaded into this process. It binds one data directory per process. */
export interface Engine {
  /** Opens one more session on the same directory; sessions run in parallel, each runs one statement at a time. */
  openSession(): Session;
  query(session: Session, sql: string): Promise<ChdbResult>;
  /** `head` is `INSERT INTO … FORMAT X`; `data` is in that format, which must have one line per row. */
  insertRaw(session: Session, head: string, data: Buffer): Promise<RawInsertResult>;
}

interface Native {
  InsertRawAsyncConnection(
    connection: unknown,
    head: string,
    data: Buffer,
    countLines: boolean,
  ): Promise<RawInsertResult>;
}

/** Loads chDB and the binding for this platform, a package of its own. Both are optional: an image for a cluster does without. */
function loadPackage(): { readonly chdb: typeof Chdb; readonly native: Native } {
  const require = createRequire(import.meta.url);
  try {
    const chdb = require("chdb") as typeof Chdb;
    const loader = require(join(dirname(require.resolve("chdb")), "dist", "loader.js")) as {
      loadNative(): Native;
    };
    return { chdb, native: loader.loadNative() };
  } catch (cause) {
    throw new Error(
      `it cannot be loaded (${reasonOf(cause)}): set CLICKHOUSE_URL, or run npm ci with optional dependencies`,
      { cause },
    );
  }
}

/** Returns the first line: an error about a missing module also lists all that asked for it. */
export function reasonOf(error: unknown): string {
  return messageOf(error).split("\n", 1)[0]!;
}

/**
 * Loads chDB. The public `Session.insert` builds the statement itself, but the driver sends one with settings
 * and columns of its own, so the native entry below it is called directly (chdb is pinned to an exact version).
 * @throws {Error} saying what to do if it is not installed
 */
export function loadEngine(dataDir: string, connectionArgs: readonly string[]): Engine {
  const { chdb, native } = loadPackage();
  return {
    openSession: () => new chdb.Session(dataDir, { connectionArgs }),
    query: (session, sql) => session.queryAsync(sql, { format: "TabSeparated" }),
    insertRaw: (session, head, data) =>
      native.InsertRawAsyncConnection(session.connection, head, data, false),
  };
}
