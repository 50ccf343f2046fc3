import { createHash } from "node:crypto";
import { lstat, mkdir, readFile, realpath, rename, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { systemReason, UsageError } from "../../domain/errors.ts";

/** `pg` looks for a socket of the name `.s.PGSQL.<port>` in the directory that is given as its host. */
export const SOCKET_PORT = 5432;
const SOCKET_NAME = `.s.PGSQL.${SOCKET_PORT}`;
/** sun_path holds 108 bytes on Linux and 104 elsewhere, with the final NUL. */
const MAX_PATH_BYTES = 103;
/** In `<dataDir>/run`: where the sockets are instead. */
const ELSEWHERE = "socket-directory";

/**
 * Where the owner of a data directory serves its database and its log: `<dataDir>/run`, or, where that path is too long for a unix
 * socket, a directory under the system's temporary one, which `run` then names. Mode 0700.
 * @throws {UsageError} where it cannot be made, or is somebody else's
 */
export async function makeSocketDirectory(dataDir: string): Promise<string> {
  const run = await runDirectory(dataDir);
  await mkdir(run, { recursive: true, mode: 0o700 });
  if (isShortEnough(run)) return run;
  const elsewhere = temporaryFor(run);
  await mkdir(elsewhere, { mode: 0o700 }).catch((cause: unknown) => {
    if (systemReason(cause) === "EEXIST") return;
    throw new UsageError(
      `the sockets of ${dataDir} cannot be made in ${elsewhere} (${systemReason(cause)}): set TMPDIR to a directory that this user may write, or RELAY_DATA_DIR to a shorter path`,
      { cause },
    );
  });
  await refuseOthers(elsewhere);
  const draft = join(run, `${ELSEWHERE}.${process.pid}`);
  await writeFile(draft, elsewhere, { mode: 0o600 });
  await rename(draft, join(run, ELSEWHERE));
  return elsewhere;
}

/**
 * Where the owner of a data directory made it, by whichever name that is called, and whatever the temporary directory of this process.
 * @throws {UsageError} where it is somebody else's by now
 */
export async function findSocketDirectory(dataDir: string): Promise<string> {
  const run = await runDirectory(dataDir);
  if (isShortEnough(run)) return run;
  const elsewhere = await readFile(join(run, ELSEWHERE), "utf8").catch(() => temporaryFor(run));
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

/** Under the temporary directory anybody may have made it before. */
async function refuseOthers(directory: string): Promise<void> {
  const found = await lstat(directory).catch(() => null);
  if (found === null || (found.uid === userId() && (found.mode & 0o777) === 0o700)) return;
  throw new UsageError(
    `${directory} does not belong to this user alone: remove it, or set RELAY_DATA_DIR to a shorter path`,
  );
}

/** Not by `userInfo`, which fails for a user without an entry: in containers. */
function userId(): number {
  return process.getuid?.() ?? -1;
}

export function socketPath(directory: string): string {
  return join(directory, SOCKET_NAME);
}
