import type { ChdbResult } from "chdb";
import { bindParameters } from "./bind-parameters.ts";
import type { Engine } from "./engine.ts";
import type { PooledSession, SessionPool } from "./session-pool.ts";
import { sqlLiteral, type Statement } from "./statement.ts";

export interface StatementResult {
  readonly bytes: Uint8Array;
  readonly rowsRead: number;
  readonly bytesRead: number;
  readonly rowsWritten: number;
  readonly bytesWritten: number;
}

export interface StatementRunner {
  run(statement: Statement): Promise<StatementResult>;
  /** Ends a running read; does nothing if it has already ended. */
  cancel(queryId: string): Promise<void>;
}

interface Pools {
  readonly read: SessionPool;
  readonly write: SessionPool;
  readonly control: SessionPool;
}

/** Run after a statement that failed, which stays in `system.processes`, with what it holds, until its session runs the next one. */
const FORGET_FAILED = "SELECT 1";
/** Stands for a setting that the session may or may not have; no statement asks for it. */
const UNKNOWN = "\0unknown";
const NO_BYTES = new Uint8Array(0);

/**
 * Makes a runner of statements on pooled sessions. Settings that the session does not have yet are `SET` first, and parameters are
 * put into the statement: chDB's own parameter binding is not isolated between connections, and would queue all reads behind
 * each other.
 */
export function makeStatementRunner(engine: Engine, pools: Pools): StatementRunner {
  return {
    run(statement) {
      const pool = statement.reads ? pools.read : pools.write;
      return pool.use(async (pooled) => {
        try {
          await prepare(engine, pooled, statement);
          return await execute(engine, pooled, statement);
        } catch (error) {
          await engine.query(pooled.session, FORGET_FAILED).catch(() => undefined);
          throw error;
        }
      });
    },
    async cancel(queryId) {
      if (queryId === "") return;
      await pools.control.use((pooled) =>
        engine.query(
          pooled.session,
          `KILL QUERY WHERE startsWith(query, ${sqlLiteral(markOf(queryId))}) ASYNC`,
        ),
      );
    },
  };
}

async function execute(
  engine: Engine,
  { session }: PooledSession,
  { sql, data, parameters, queryId, reads }: Statement,
): Promise<StatementResult> {
  if (data !== null) {
    const { rowsWritten, bytesWritten } = await engine.insertRaw(session, sql, data);
    return { bytes: NO_BYTES, rowsRead: 0, bytesRead: 0, rowsWritten, bytesWritten };
  }
  const bound = bindParameters(sql, parameters);
  const result: ChdbResult = await engine.query(session, reads ? markOf(queryId) + bound : bound);
  return {
    bytes: result.bytes(),
    rowsRead: result.rowsRead,
    bytesRead: result.bytesRead,
    rowsWritten: 0,
    bytesWritten: 0,
  };
}

/** Returns a comment to put in front of a statement, to find it among those that run: chDB gives statements ids of its own. */
function markOf(queryId: string): string {
  return `/* ${queryId.replaceAll("*/", "")} */ `;
}

/** Brings the session's database and settings to what the statement wants. */
async function prepare(engine: Engine, pooled: PooledSession, statement: Statement): Promise<void> {
  if (pooled.database !== statement.database) {
    await engine.query(pooled.session, `USE \`${statement.database.replaceAll("`", "")}\``);
    pooled.database = statement.database;
  }
  const changes: string[] = [];
  const resets: string[] = [];
  for (const name of pooled.settings.keys()) if (!statement.settings.has(name)) resets.push(name);
  for (const [name, value] of statement.settings)
    if (pooled.settings.get(name) !== value) changes.push(`${name} = ${sqlLiteral(value)}`);
  if (resets.length === 0 && changes.length === 0) return;
  // A refused SET may have been applied in part: the settings are then unknown, so each is set again next time.
  for (const name of [...resets, ...statement.settings.keys()]) pooled.settings.set(name, UNKNOWN);
  if (resets.length > 0)
    await engine.query(
      pooled.session,
      `SET ${resets.map((name) => `${name} = DEFAULT`).join(", ")}`,
    );
  for (const name of resets) pooled.settings.delete(name);
  if (changes.length > 0) await engine.query(pooled.session, `SET ${changes.join(", ")}`);
  for (const [name, value] of statement.settings) pooled.settings.set(name, value);
}
