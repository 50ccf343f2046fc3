import type { Logger } from "../../domain/logger.ts";
import type { Database } from "./database.ts";

const SELECT_BACKEND_SQL =
  "SELECT concat_ws(' ', inet_server_addr(), pg_postmaster_start_time(), pg_backend_pid()) AS backend";

/**
 * Warns of a pooler that lends its connections for a transaction only: two connections that are both open then have the same server
 * process. Behind it `LISTEN` hears nothing, and prepared statements may be another connection's.
 *
 * @param one its connection stays open while `other` asks
 */
export async function warnOfPooler(one: Database, other: Database, logger: Logger): Promise<void> {
  const [first] = await one.run(SELECT_BACKEND_SQL);
  const [second] = await other.run(SELECT_BACKEND_SQL);
  if (first?.["backend"] !== second?.["backend"]) return;
  logger.warn(
    {
      mend: "set the pooler to session mode (PgBouncer: pool_mode = session), or let DATABASE_URL name PostgreSQL itself: changes of the configuration are not pushed, and statements may fail",
    },
    "postgres.pooler_not_in_session_mode",
  );
}
