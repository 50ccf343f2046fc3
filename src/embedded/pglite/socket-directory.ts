import { createHash, randomUUID } from "node:crypto";
import { lstat, mkdir, readFile, realpath, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { systemReason, UsageError } from "../../domain/errors.ts";
import { listensAt } from "../unix-sockets.ts";
import { replaceFile } from "../replace-file.ts";

/** `pg` looks for a socket named `.s.PGSQL.<port>` in the directory that is given as its host. */
export const SOCKET_PORT = 5432;
const SOCKET_NAME = `.s.PGSQL.${SOCKET_PORT}`;
/** sun_path holds 108 bytes on Linux and 104 elsewhere, with the final NUL. */
const MAX_PATH_BYTES = 103;
/** File in `<dataDir>/run` that says where the sockets are instead. */
const ELSEWHERE = "socket-directory";

/**
 * Makes the directory where the owner of a data directory serves its database and its log: `<dataDir>/run`, or, if that path is too
 * long for a unix socket, or its file system has none (as directories of the host in a container may), a directory under the
 * system's temporary one, which a file in `run` then names. Mode 0700.
 * @throws {UsageError} when it cannot be made, is somebody else's, or has too long a path as well
 */
export async function makeSocketDirectory(dataDir: string): Promise<string> {
  const run = await runDirectory(dataDir);
  await mkdir(run, { recursive: true, mode: 0o700 });
  if (isShortEnough(run) && (await takesSockets(run))) {
    await rm(join(run, ELSEWHERE), { force: true });
    return run;
  }
  const elsewhere = temporaryFor(run);
  // The system would cut the path short, and serve the database where nobody looks for it.
  if (!isShortEnough(elsewhere))
    throw new UsageError(
      `the sockets of ${dataDir} cannot be made in ${elsewhere} (the path is too long): set TMPDIR or RELAY_DATA_DIR to a shorter path`,
    );
  await mkdir(elsewhere, { mode: 0o700 }).catch((cause: unknown) => {
    if (systemReason(cause) === "EEXIST") return;
    throw new UsageError(
      `the sockets of ${dataDir} cannot be made in ${elsewhere} (${systemReason(cause)}): set TMPDIR to a directory that this user may write, or RELAY_DATA_DIR to a shorter path on a local disk`,
      { cause },
    );
  });
  await refuseOthers(elsewhere);
  await replaceFile(join(run, ELSEWHERE), elsewhere);
  return elsewhere;
}

/**
 * Finds the directory that the owner made, whatever path names the data directory, and whatever this process's temporary directory is.
 * @throws {UsageError} when it is somebody else's by now
 */
export async function findSocketDirectory(dataDir: string): Promise<string> {
  const run = await runDirectory(dataDir);
  const named = await readFile(join(run, ELSEWHERE), "utf8").catch(() => null);
  if (named === null && isShortEnough(run)) return run;
  const elsewhere = named ?? temporaryFor(run);
  await refuseOthers(elsewhere);
  return elsewhere;
}

async function runDirectory(dataDir: string): Promise<string> {
  return join(await realpath(dataDir).catch(() => resolve(dataDir)), "run");
}

function temporaryFor(run: string): string {
  const name = createHash("sha256").update(run).digest("hex").slice(0, 16);
  return join(tmpdir(), `relay-${userId()}-${name}`);
}

function isShortEnough(directory: string): boolean {
  return Buffer.byteLength(socketPath(directory)) <= MAX_PATH_BYTES;
}

async function takesSockets(directory: string): Promise<boolean> {
  const server = createServer();
  const isListening = await listensAt(server, join(directory, `${randomUUID().slice(0, 8)}.try`));
  if (isListening) await new Promise((resolve) => server.close(resolve));
  return isListening;
}

/** Refuses a directory of another user: anyone may have made it first under the temporary directory. */
async function refuseOthers(directory: string): Promise<void> {
  const found = await lstat(directory).catch(() => null);
  if (found === null || (found.uid === userId() && (found.mode & 0o777) === 0o700)) return;
  throw new UsageError(
    `${directory} does not belong to this user alone: remove it, or set RELAY_DATA_DIR to a shorter path`,
  );
}

/** Avoids `userInfo`, which fails for a user without an entry, as in containers. */
function userId(): number {
  return process.getuid?.() ?? -1;
}

export function socketPath(directory: string): string {
  return join(directory, SOCKET_NAME);
}
