import { describe, expect, it } from "vitest";
import { makeBundleReader } from "../../../src/adapters/postgres/bundle-reader.ts";
import { openDatabase, type Database } from "../../../src/adapters/postgres/database.ts";
import { migrate } from "../../../src/adapters/postgres/migrate.ts";
import { startEmbeddedPostgres } from "../../../src/embedded/pglite/start.ts";
import { PGLITE_TEMPLATE, temporaryDirectory } from "../../support/postgres.ts";
import { silentLogger } from "../../support/silent-logger.ts";
import { waitFor } from "../../support/wait-for.ts";

/** After five runs a plan is kept. */
const RUNS_UNTIL_PLANNED = 6;
/** On a busy machine more would take longer than a statement may. */
const ROWS_PER_STATEMENT = 500;

const BEGIN_SQL = `
  INSERT INTO organizations (id, name, created_at) VALUES ('org_1', 'one', now());
  INSERT INTO projects (id, org_id, name, slug, created_at) VALUES ('prj_1', 'org_1', 'One', 'one', now())`;

/** Inserts endpoints with a destination each. */
const insertSql = (from: number, to: number): string => `
  INSERT INTO endpoints (id, org_id, project_id, token, name, provider, verification_method, method_is_explicit, status,
    sealed, created_at, updated_at)
  SELECT 'ep_' || n, 'org_1', 'prj_1', 'token-' || n, 'Endpoint', 'custom', 'none', true, 'active', '', now(), now()
  FROM generate_series(${from}, ${to}) AS n;
  INSERT INTO destinations (id, org_id, endpoint_id, name, receiver_url, forward_original_signature, status,
    retry_max_attempts, retry_backoff, sealed, created_at, updated_at)
  SELECT 'dst_' || n, 'org_1', 'ep_' || n, 'One', 'https://receiver.example', false, 'active', 5, 'exponential', '', now(), now()
  FROM generate_series(${from}, ${to}) AS n`;

interface Filled extends AsyncDisposable {
  readonly database: Database;
  /** Loads the last endpoint. @returns how many rows and index entries that read */
  readonly readsOfLoad: () => Promise<number>;
}

/** Starts the engine, has the statement for bundles planned while there are a few endpoints, and then makes the others. */
async function startAndFill(endpoints: number, analyzeEveryMs: number): Promise<Filled> {
  const directory = await temporaryDirectory();
  const embedded = await startEmbeddedPostgres({
    dataDir: directory.path,
    logger: silentLogger,
    templateFile: PGLITE_TEMPLATE,
    analyzeEveryMs,
  });
  const { connection } = embedded;
  const database = openDatabase({ connection, maxConnections: 2, logger: silentLogger });
  await migrate(database);
  const reader = makeBundleReader(database);
  const load = async () =>
    reader.bundles({ tokens: [], endpointIds: [`ep_${endpoints}`], destinationIds: [] });
  await database.run(BEGIN_SQL);
  for (let run = 1; run <= RUNS_UNTIL_PLANNED; run += 1) {
    await database.run(insertSql(run, run));
    await load();
  }
  for (let from = RUNS_UNTIL_PLANNED + 1; from <= endpoints; from += ROWS_PER_STATEMENT)
    await database.run(insertSql(from, Math.min(from + ROWS_PER_STATEMENT - 1, endpoints)));
  const reads = async () => {
    // Counts are otherwise written once a second.
    await database.run("SELECT pg_stat_force_next_flush()");
    const [row] = await database.run(`
      SELECT (SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE relname IN ('endpoints', 'destinations'))
        + (SELECT sum(seq_tup_read) FROM pg_stat_user_tables WHERE relname IN ('endpoints', 'destinations')) AS reads`);
    return Number(row?.["reads"]);
  };
  return {
    database,
    async readsOfLoad() {
      const before = await reads();
      const [bundle] = await load();
      expect(bundle?.destinations.map(({ id }) => id)).toEqual([`dst_${endpoints}`]);
      return (await reads()) - before;
    },
    async [Symbol.asyncDispose]() {
      await database[Symbol.asyncDispose]();
      await embedded[Symbol.asyncDispose]();
      await directory[Symbol.asyncDispose]();
    },
  };
}

describe("plans of the embedded PostgreSQL", () => {
  it("regression: once tables have grown, an endpoint is read by its key: each load went on reading all endpoints", async () => {
    // In smaller tables it is cheaper to read all.
    const endpoints = 3_000;
    await using filled = await startAndFill(endpoints, 50);
    await waitFor("analyzed tables", async () => {
      const rows = await filled.database.run(
        `SELECT 1 FROM pg_class WHERE relname IN ('endpoints', 'destinations') AND reltuples = ${endpoints}`,
      );
      return rows.length === 2;
    });
    expect(await filled.readsOfLoad()).toBeLessThan(20);
  });

  it("regression: until then, a load reads each endpoint once at most: it read all destinations for each of them", async () => {
    const endpoints = 400;
    await using filled = await startAndFill(endpoints, 3_600_000);
    expect(await filled.readsOfLoad()).toBeLessThan(3 * endpoints);
  });
});
