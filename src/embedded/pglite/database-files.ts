import { mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { PGlite, PGliteOptions } from "@electric-sql/pglite";
import type { NodeFS } from "@electric-sql/pglite/nodefs";
import { UsageError } from "../../domain/errors.ts";
import type { Logger } from "../../domain/logger.ts";
import { exists } from "../exists.ts";
import { replaceFile } from "../replace-file.ts";
import { syncDirectoryBeside } from "../../adapters/lmdb/sync-files.ts";
import { syncedFiles, syncedStart, syncTree, type SyncedFiles } from "./synced-files.ts";

/** The engine, and its files on the disk. */
export interface Engine {
  readonly PGlite: typeof PGlite;
  readonly NodeFS: typeof NodeFS;
  /** Called with the reason when the engine gives up after it was opened, as when its log cannot be written: it must not be used any more. */
  readonly onPanic: (reason: string) => void;
}

/** Lines in the engine's log after which its process would end. */
const PANIC = /\b(?:PANIC|FATAL): +(.*)/;

/** Small log segments: configuration is little data, and a new directory takes 28 MB instead of 40. */
const INITDB_FLAGS = ["--wal-segsize=1", "--no-sync"];

const WASI_ENOSPC = 51;

/**
 * Lies beside the database's directory and says that it was made: if that goes missing, a relay with its log must not begin with no
 * endpoints, and end what is pending for them.
 */
const MARK = "postgres.made";

/**
 * Opens the database in `<dataDir>/postgres`, or makes it.
 * @param options.templateFile see `startEmbeddedPostgres`
 * @throws {UsageError} when it is missing, damaged, or has no room
 */
export async function openDatabaseFiles(
  engine: Engine,
  options: {
    readonly dataDir: string;
    readonly templateFile: string | null;
    readonly logger: Logger;
  },
): Promise<PGlite> {
  const files = join(options.dataDir, "postgres");
  await mkdir(files, { recursive: true, mode: 0o700 });
  const mark = join(options.dataDir, MARK);
  const isMade = (await exists(mark)) || (await exists(join(files, "ready")));
  const database = isMade
    ? await openMade(engine, join(files, "data"))
    : await makeAnew(engine, files, options);
  try {
    await writeFile(mark, "", { flag: "a", mode: 0o600 });
    await syncDirectoryBeside(options.dataDir);
    return database;
  } catch (error) {
    await database.close();
    throw error;
  }
}

async function makeAnew(
  engine: Engine,
  files: string,
  { templateFile, logger }: { readonly templateFile: string | null; readonly logger: Logger },
): Promise<PGlite> {
  const data = join(files, "data");
  await moveAside(data, join(files, "unfinished"), logger);
  const template = templateFile === null ? null : await readOrNull(templateFile);
  const database = await makeDatabase(engine, data, template, logger);
  await writeFile(join(files, "ready"), "initialised\n", { flush: true });
  await syncDirectoryBeside(files);
  if (template === null && templateFile !== null) {
    try {
      const dump = await database.dumpDataDir("gzip");
      await mkdir(dirname(templateFile), { recursive: true });
      // It lies with the program, which other users may run, too.
      await replaceFile(templateFile, Buffer.from(await dump.arrayBuffer()), 0o644);
    } catch (error) {
      logger.warn({ templateFile, err: error }, "pglite.template_not_written");
    }
  }
  return database;
}

/** Makes a database, from the template if that is whole. @throws {UsageError} when there is no room */
async function makeDatabase(
  engine: Engine,
  data: string,
  template: Buffer | null,
  logger: Logger,
): Promise<PGlite> {
  if (template !== null)
    try {
      return await create(engine, data, { loadDataDir: new Blob([new Uint8Array(template)]) });
    } catch (error) {
      logger.warn({ err: reasonOf(error) }, "pglite.template_not_used");
      await rm(data, { recursive: true, force: true });
    }
  try {
    return await create(engine, data, { initDbStartParams: INITDB_FLAGS });
  } catch (cause) {
    throw new UsageError(
      `the database in ${data} cannot be made (${reasonOf(cause)}): make room on its disk, or set RELAY_DATA_DIR to another directory`,
      { cause },
    );
  }
}

/** Makes a database; returns once all of it is on the disk. */
async function create(engine: Engine, data: string, options: PGliteOptions): Promise<PGlite> {
  const files = syncedFiles(engine.NodeFS, data);
  const database = await open(engine, files, options);
  await syncTree(dirname(data));
  files.startSyncing();
  return database;
}

/** @throws {Error} that says why the engine gave up, if it did */
async function open(
  { PGlite: engine, onPanic }: Engine,
  { filesystem }: SyncedFiles,
  options: PGliteOptions = {},
): Promise<PGlite> {
  let panic: string | null = null;
  let isOpen = false;
  const onStderr = (line: string): boolean => {
    const reason = PANIC.exec(line)?.[1];
    if (reason !== undefined) {
      panic = reason;
      if (isOpen) onPanic(reason);
    }
    return true;
  };
  const startParams = syncedStart(engine.defaultStartParams);
  try {
    const database = await engine.create({ ...options, fs: filesystem, startParams, onStderr });
    isOpen = true;
    return database;
  } catch (cause) {
    throw panic === null ? cause : new Error(panic, { cause });
  }
}

/** Opens a database that was made. By itself, the engine makes an empty one if it is missing, and reports a damaged one with a stack. */
async function openMade(engine: Engine, data: string): Promise<PGlite> {
  if (!(await exists(join(data, "PG_VERSION"))))
    throw new UsageError(
      `the database in ${data} is missing: restore the data directory from a backup, or set RELAY_DATA_DIR to a new one`,
    );
  try {
    const files = syncedFiles(engine.NodeFS, data);
    files.startSyncing();
    return await open(engine, files);
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
