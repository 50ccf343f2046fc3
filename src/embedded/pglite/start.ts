import { chmod, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { connect } from "node:net";
import { dirname, join } from "node:path";
import type { Logger } from "../../domain/logger.ts";
import { UsageError } from "../../domain/errors.ts";
import { exists } from "../exists.ts";
import { notLoaded } from "../not-loaded.ts";
import { startAnalyses } from "./analyses.ts";
import { startCheckpoints } from "./checkpoints.ts";
import { listenOutsideTransactions, makeSessionGate, type Notification } from "./session-gate.ts";
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
  /** Listens to NOTIFY from any connection, without one of its own. The returned function stops it. */
  listen(channel: string, onPayload: (payload: string) => void): Promise<() => void>;
}

/** Connections beyond this are refused; each process uses a handful. */
const MAX_CONNECTIONS = 64;

/** Small log segments: configuration is little data, and a new directory takes 28 MB instead of 40. */
const INITDB_FLAGS = ["--wal-segsize=1", "--no-sync"];

const CHECKPOINT_EVERY_MS = 60_000;
const ANALYZE_EVERY_MS = 10_000;

const WASI_ENOSPC = 51;

/**
 * Lies beside the database's directory and says that it was made: if that goes missing, a relay with its log must not begin with no
 * endpoints, and end what is pending for them.
 */
const MARK = "postgres.made";

function connectionTo(host: string): EmbeddedConnection {
  return { host, port: SOCKET_PORT, ssl: false, user: "postgres", database: "postgres" };
}

/**
 * Starts PGlite in this process, on `<dataDir>/postgres`, behind a unix socket (mode 0600) that `pg` connects to.
 * One process at a time may do so: claim the data directory first; others use `attachEmbeddedPostgres`.
 * `templateFile`: an initialised empty database that is used instead of `initdb` (0.5–1.5 s instead of 5 s of CPU)
 * and written there if it is missing.
 * @throws {UsageError} when another process serves this data directory, or its engine is not installed
 */
export async function startEmbeddedPostgres(options: {
  readonly dataDir: string;
  readonly logger: Logger;
  readonly templateFile?: string;
  readonly checkpointEveryMs?: number;
  readonly analyzeEveryMs?: number;
}): Promise<EmbeddedPostgres> {
  const directory = await makeSocketDirectory(options.dataDir);
  const path = socketPath(directory);
  if (await answers(path))
    throw new UsageError(
      `another process serves the database in ${options.dataDir}: stop it, or set RELAY_DATA_DIR to another directory`,
    );
  // Left behind by a process that was killed.
  await rm(path, { force: true });

  const { PGlite, PGLiteSocketServer } = await loadEngine();
  const files = join(options.dataDir, "postgres");
  await mkdir(files, { recursive: true, mode: 0o700 });
  const mark = join(options.dataDir, MARK);
  const database = await openFiles(PGlite, files, { ...options, isMade: await exists(mark) });

  const listeners = new Map<string, Set<(payload: string) => void>>();
  const onNotification = ({ channel, payload }: Notification) => {
    for (const listener of listeners.get(channel) ?? []) listener(payload);
  };
  const server = new PGLiteSocketServer({
    db: makeSessionGate(database, onNotification),
    path,
    maxConnections: MAX_CONNECTIONS,
  });
  try {
    await writeFile(mark, "", { flag: "a", mode: 0o600 });
    await server.start();
    await chmod(path, 0o600);
  } catch (error) {
    await database.close();
    throw error;
  }
  const checkpoints = startCheckpoints({
    database,
    everyMs: options.checkpointEveryMs ?? CHECKPOINT_EVERY_MS,
    logger: options.logger,
  });
  const analyses = startAnalyses({
    database,
    everyMs: options.analyzeEveryMs ?? ANALYZE_EVERY_MS,
    logger: options.logger,
  });

  return {
    connection: connectionTo(directory),
    async listen(channel, onPayload) {
      const ofChannel = listeners.get(channel) ?? new Set();
      listeners.set(channel, ofChannel);
      ofChannel.add(onPayload);
      // The session must listen; the gate then takes what arrives out of the answers.
      await listenOutsideTransactions(database, channel);
      return () => {
        ofChannel.delete(onPayload);
      };
    },
    async [Symbol.asyncDispose]() {
      await analyses[Symbol.asyncDispose]();
      await checkpoints[Symbol.asyncDispose]();
      await server.stop();
      await database.close();
      await rm(path, { force: true });
    },
  };
}

/** Returns the connection to the embedded PostgreSQL that another process serves; null if none does. */
export async function attachEmbeddedPostgres(dataDir: string): Promise<EmbeddedConnection | null> {
  const directory = await findSocketDirectory(dataDir);
  return (await answers(socketPath(directory))) ? connectionTo(directory) : null;
}

async function loadEngine() {
  try {
    const [{ PGlite }, { PGLiteSocketServer }] = await Promise.all([
      import("@electric-sql/pglite"),
      import("@electric-sql/pglite-socket"),
    ]);
    return { PGlite, PGLiteSocketServer };
  } catch (error) {
    throw notLoaded("PostgreSQL", "DATABASE_URL", error);
  }
}

type Engine = Awaited<ReturnType<typeof loadEngine>>["PGlite"];

async function openFiles(
  PGlite: Engine,
  files: string,
  options: { readonly logger: Logger; readonly templateFile?: string; readonly isMade: boolean },
) {
  const { templateFile, logger, isMade } = options;
  const data = join(files, "data");
  if (isMade || (await exists(join(files, "ready")))) return openMade(PGlite, data);
  await moveAside(data, join(files, "unfinished"), logger);
  const template = templateFile === undefined ? null : await readOrNull(templateFile);
  const database = await makeDatabase(PGlite, data, template, logger);
  await writeFile(join(files, "ready"), "initialised\n");
  if (template === null && templateFile !== undefined) {
    try {
      const dump = await database.dumpDataDir("gzip");
      await mkdir(dirname(templateFile), { recursive: true });
      const draft = `${templateFile}.${process.pid}`;
      await writeFile(draft, Buffer.from(await dump.arrayBuffer()));
      await rename(draft, templateFile);
    } catch (error) {
      logger.warn({ templateFile, err: error }, "pglite.template_not_written");
    }
  }
  return database;
}

/** Makes a database, from the template if that is whole. @throws {UsageError} when there is no room */
async function makeDatabase(
  PGlite: Engine,
  data: string,
  template: Buffer | null,
  logger: Logger,
): Promise<InstanceType<Engine>> {
  if (template !== null)
    try {
      return await PGlite.create(data, { loadDataDir: new Blob([new Uint8Array(template)]) });
    } catch (error) {
      logger.warn({ err: reasonOf(error) }, "pglite.template_not_used");
      await rm(data, { recursive: true, force: true });
    }
  try {
    return await PGlite.create(data, { initDbStartParams: INITDB_FLAGS });
  } catch (cause) {
    throw new UsageError(
      `the database in ${data} cannot be made (${reasonOf(cause)}): make room on its disk, or set RELAY_DATA_DIR to another directory`,
      { cause },
    );
  }
}

/** Opens a database that was made. By itself, the engine makes an empty one if it is missing, and reports a damaged one with a stack. */
async function openMade(PGlite: Engine, data: string) {
  if (!(await exists(join(data, "PG_VERSION"))))
    throw new UsageError(
      `the database in ${data} is missing: restore the data directory from a backup, or set RELAY_DATA_DIR to a new one`,
    );
  try {
    return await PGlite.create(data);
  } catch (cause) {
    throw new UsageError(
      `the database in ${data} cannot be opened (${reasonOf(cause)}): see that its disk has room, or restore the data directory from a backup`,
      { cause },
    );
  }
}

/** Returns a message even for what the engine's file system throws: objects with a WASI number. */
function reasonOf(cause: unknown): string {
  if (cause instanceof Error) return cause.message;
  const { errno } = (cause ?? {}) as { readonly errno?: unknown };
  return errno === WASI_ENOSPC ? "no space left on device" : `error ${String(errno)}`;
}

/**
 * Moves aside what a killed process left half made, with nothing stored in it yet. It is kept once all the same: a copy of a
 * data directory may have left out the mark that it is whole.
 */
async function moveAside(data: string, aside: string, logger: Logger): Promise<void> {
  if (!(await exists(data))) return;
  if (await exists(aside)) return rm(data, { recursive: true, force: true });
  await rename(data, aside);
  logger.warn({ keptAs: aside }, "pglite.unfinished_database");
}

async function readOrNull(path: string): Promise<Buffer | null> {
  try {
    return await readFile(path);
  } catch {
    return null;
  }
}

/** Returns whether something accepts connections there. */
async function answers(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path);
    socket.once("connect", () => {
      socket.destroy();
      resolve(true);
    });
    socket.once("error", () => {
      socket.destroy();
      resolve(false);
    });
  });
}
