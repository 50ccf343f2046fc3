import { repeatStatement, type RepeatOptions } from "./repeat-statement.ts";

/**
 * Takes the tables that autovacuum would by default, and those never analyzed. One of 50,000 rows keeps all connections waiting for
 * 25 ms; with samples of the default size it would be 190.
 */
const ANALYZE_SQL = `
  DO $$ DECLARE changed record; BEGIN
    PERFORM set_config('default_statistics_target', '10', true);
    FOR changed IN
      SELECT relid::regclass AS name FROM pg_stat_user_tables JOIN pg_class ON oid = relid
      WHERE reltuples < 0 OR n_mod_since_analyze > 50 + 0.1 * reltuples
    LOOP
      EXECUTE format('ANALYZE %s', changed.name);
    END LOOP;
  END $$`;

/**
 * Analyzes tables that have changed, as a PostgreSQL server does by itself. Otherwise the plans of statements that first ran while
 * the tables were all but empty would be kept: with 5,000 endpoints, each load of one then takes ten seconds.
 */
export function startAnalyses(options: RepeatOptions): AsyncDisposable {
  return repeatStatement(ANALYZE_SQL, options, (error) =>
    options.logger.warn({ err: error }, "pglite.analyze_failed"),
  );
}
