import { rm } from "node:fs/promises";
import { UsageError } from "../../domain/errors.ts";
import type { Logger } from "../../domain/logger.ts";
import { answersAt } from "../unix-sockets.ts";
import { PostgresThread } from "./postgres-thread.ts";
import {
  findSocketDirectory,
  makeSocketDirectory,
  SOCKET_PORT,
  socketPath,
} from "./socket-directory.ts";

/** Everything that `pg` would otherwise take from PGPORT, PGSSLMODE and the like, which are meant for another server. */
export interface EmbeddedConnection {
  /** Directory of the socket, which `pg` takes as its host. */
  readonly host: string;
  readonly port: number;
  readonly ssl: false;
  readonly user: string;
  readonly database: string;
}

export interface EmbeddedPostgres extends AsyncDisposable {
  readonly connection: EmbeddedConnection;
}

const CHECKPOINT_EVERY_MS = 60_000;
const ANALYZE_EVERY_MS = 10_000;
/** No transaction of the relay waits for anything but the next statement. */
const MAX_IDLE_MS = 20_000;

function connectionTo(host: string): EmbeddedConnection {
  return { host, port: SOCKET_PORT, ssl: false, user: "postgres", database: "postgres" };
}

/**
 * Starts PGlite in a thread of this process, on `<dataDir>/postgres`, behind a unix socket (mode 0600) that `pg` connects to.
 * One process at a time may do so: claim the data directory first; others use `attachEmbeddedPostgres`.
 * @param options.templateFile an initialised, empty database that is used instead of `initdb` (0.5–1.5 s instead of 5 s of CPU), and
 *   written there if it is missing; none by default
 * @throws {UsageError} when another process serves this data directory, or its engine is not installed
 */
export async function startEmbeddedPostgres(options: {
  readonly dataDir: string;
  readonly logger: Logger;
  readonly templateFile?: string | null;
  readonly checkpointEveryMs?: number;
  readonly analyzeEveryMs?: number;
  readonly maxIdleMs?: number;
}): Promise<EmbeddedPostgres> {
  const { dataDir, logger } = options;
  const directory = await makeSocketDirectory(dataDir);
  const path = socketPath(directory);
  if (await answersAt(path))
    throw new UsageError(
      `another process serves the database in ${dataDir}: stop it, or set RELAY_DATA_DIR to another directory`,
    );
  // Left behind by a process that was killed.
  await rm(path, { force: true });
  const thread = new PostgresThread(
    {
      dataDir,
      path,
      templateFile: options.templateFile ?? null,
      checkpointEveryMs: options.checkpointEveryMs ?? CHECKPOINT_EVERY_MS,
      analyzeEveryMs: options.analyzeEveryMs ?? ANALYZE_EVERY_MS,
      maxIdleMs: options.maxIdleMs ?? MAX_IDLE_MS,
    },
    logger,
  );
  await thread.start();
  return {
    connection: connectionTo(directory),
    [Symbol.asyncDispose]: () => thread[Symbol.asyncDispose](),
  };
}

/** Returns the connection to the embedded PostgreSQL that another process serves; null if none does. */
export async function attachEmbeddedPostgres(dataDir: string): Promise<EmbeddedConnection | null> {
  const directory = await findSocketDirectory(dataDir);
  return (await answersAt(socketPath(directory))) ? connectionTo(directory) : null;
}
