import { randomBytes } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { templateFile } from "../../src/app/template-file.ts";
import { openDatabase, type Database } from "../../src/adapters/postgres/database.ts";
import { migrate } from "../../src/adapters/postgres/migrate.ts";
import { startEmbeddedPostgres, type EmbeddedPostgres } from "../../src/embedded/pglite/start.ts";
import { silentLogger } from "./silent-logger.ts";

/** An initialised, empty PGlite, shared by all test runs of this user. */
export const PGLITE_TEMPLATE = join(tmpdir(), `relay-test-2-${basename(templateFile())}`);

export async function temporaryDirectory(): Promise<AsyncDisposable & { readonly path: string }> {
  const path = await mkdtemp(join(tmpdir(), `relay-${randomBytes(3).toString("hex")}-`));
  return {
    path,
    [Symbol.asyncDispose]: async () => rm(path, { recursive: true, force: true }),
  };
}

export interface TestPostgres extends AsyncDisposable {
  readonly embedded: EmbeddedPostgres;
  readonly database: Database;
  readonly dataDir: string;
}

/** Starts PGlite behind its socket in a fresh directory, migrated. */
export async function startTestPostgres(): Promise<TestPostgres> {
  const directory = await temporaryDirectory();
  const embedded = await startEmbeddedPostgres({
    dataDir: directory.path,
    logger: silentLogger,
    templateFile: PGLITE_TEMPLATE,
  });
  const database = openDatabase({
    connection: embedded.connection,
    maxConnections: 4,
    logger: silentLogger,
  });
  await migrate(database);
  return {
    embedded,
    database,
    dataDir: directory.path,
    async [Symbol.asyncDispose]() {
      await database[Symbol.asyncDispose]();
      await embedded[Symbol.asyncDispose]();
      await directory[Symbol.asyncDispose]();
    },
  };
}
