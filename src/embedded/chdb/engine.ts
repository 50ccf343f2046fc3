import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import type * as Chdb from "chdb";
import type { ChdbResult, Session } from "chdb";

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
  /** `head` is `INSERT INTO … FORMAT X`; `data` is in that format, which must be one of a line per row. */
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

/**
 * Loads chDB. The public `Session.insert` builds the statement itself, while the driver sends one with settings
 * and columns of its own: so the native entry below it is called directly (chdb is pinned to an exact version).
 */
export function loadEngine(dataDir: string, connectionArgs: readonly string[]): Engine {
  const require = createRequire(import.meta.url);
  const chdb = require("chdb") as typeof Chdb;
  const loader = require(join(dirname(require.resolve("chdb")), "dist", "loader.js")) as {
    loadNative(): Native;
  };
  const native = loader.loadNative();
  return {
    openSession: () => new chdb.Session(dataDir, { connectionArgs }),
    query: (session, sql) => session.queryAsync(sql, { format: "TabSeparated" }),
    insertRaw: (session, head, data) =>
      native.InsertRawAsyncConnection(session.connection, head, data, false),
  };
}
