import { createHash } from "node:crypto";
import { lstat, mkdir, realpath } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { UsageError } from "../../domain/errors.ts";

/** `pg` looks for a socket of this name in the directory that is given as its host. */
const SOCKET_NAME = ".s.PGSQL.5432";
/** sun_path holds 108 bytes on Linux and 104 elsewhere, with the final NUL. */
const MAX_PATH_BYTES = 103;

/**
 * Where the embedded PostgreSQL of a data directory listens: `<dataDir>/run`, or, where that path is too long
 * for a unix socket, a directory under the system's temporary one that every process derives alike. Mode 0700.
 */
export async function makeSocketDirectory(dataDir: string): Promise<string> {
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  const directory = await socketDirectory(dataDir);
  await mkdir(directory, { recursive: true, mode: 0o700 });
  if (dirname(directory) === tmpdir()) await refuseOthers(directory);
  return directory;
}

/** Under the temporary directory anybody may have made it before. */
async function refuseOthers(directory: string): Promise<void> {
  const { uid, mode } = await lstat(directory);
  if (uid !== userId() || (mode & 0o777) !== 0o700)
    throw new UsageError(
      `${directory} does not belong to this user alone: remove it, or set RELAY_DATA_DIR to a shorter path`,
    );
}

/** The same for every name of the data directory: processes meet there. */
export async function socketDirectory(dataDir: string): Promise<string> {
  const absolute = await realpath(dataDir).catch(() => resolve(dataDir));
  const inside = join(absolute, "run");
  if (Buffer.byteLength(join(inside, SOCKET_NAME)) <= MAX_PATH_BYTES) return inside;
  const name = createHash("sha256").update(absolute).digest("hex").slice(0, 16);
  return join(tmpdir(), `relay-${userId()}-${name}`);
}

/** Not by `userInfo`, which fails for a user without an entry: in containers. */
function userId(): number {
  return process.getuid?.() ?? -1;
}

export function socketPath(directory: string): string {
  return join(directory, SOCKET_NAME);
}
