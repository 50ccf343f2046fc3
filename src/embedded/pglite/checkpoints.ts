import { repeatStatement, type RepeatOptions } from "./repeat-statement.ts";

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
export function startCheckpoints(options: RepeatOptions): AsyncDisposable {
  return repeatStatement(CHECKPOINT_SQL, options, (error) =>
    options.logger.warn({ err: error }, "pglite.checkpoint_failed"),
  );
}
