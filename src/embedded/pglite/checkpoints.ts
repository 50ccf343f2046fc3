import type { PGlite } from "@electric-sql/pglite";
import type { Logger } from "../../domain/logger.ts";
import { runOutsideTransactions } from "./session-gate.ts";

/** A checkpoint keeps all connections waiting for some 100 ms, so it is made only when there is something to let go of. */
const CHECKPOINT_SQL = `
  DO $$ BEGIN
    IF pg_wal_lsn_diff(pg_current_wal_lsn(), (SELECT redo_lsn FROM pg_control_checkpoint())) > 32 * 1024 * 1024 THEN
      EXECUTE 'CHECKPOINT';
    END IF;
  END $$`;

/**
 * Makes the checkpoints that a PostgreSQL server makes by itself. This engine has no process for them: whatever `max_wal_size`
 * says, its write-ahead log would grow until the engine stops, by some 1.4 KB with each write of the API.
 */
export function startCheckpoints(options: {
  readonly database: PGlite;
  readonly everyMs: number;
  readonly logger: Logger;
}): AsyncDisposable {
  const { database, everyMs, logger } = options;
  let running: Promise<void> | null = null;
  const timer = setInterval(() => {
    running ??= runOutsideTransactions(database, CHECKPOINT_SQL)
      .then(
        () => undefined,
        (error: unknown) => logger.warn({ err: error }, "pglite.checkpoint_failed"),
      )
      .finally(() => {
        running = null;
      });
  }, everyMs);
  timer.unref();
  return {
    async [Symbol.asyncDispose]() {
      clearInterval(timer);
      await running;
    },
  };
}
