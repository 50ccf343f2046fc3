import { createHash } from "node:crypto";
import { mkdir } from "node:fs/promises";
import { tmpdir, userInfo } from "node:os";
import { join, resolve } from "node:path";

/** `pg` looks for a socket of this name in the directory that is given as its host. */
const SOCKET_NAME = ".s.PGSQL.5432";
/** sun_path holds 108 bytes on Linux and 104 elsewhere, with the final NUL. */
const MAX_PATH_BYTES = 103;

/**
 * Where the embedded PostgreSQL of a data directory listens: `<dataDir>/run`, or, where that path is too long
 * for a unix socket, a directory under the system's temporary one that every process derives alike. Mode 0700.
 */
export async function makeSocketDirectory(dataDir: string): Promise<string> {
  const directory = socketDirectory(dataDir);
  await mkdir(directory, { recursive: true, mode: 0o700 });
  return directory;
}

export function socketDirectory(dataDir: string): string {
  const absolute = resolve(dataDir);
  const inside = join(absolute, "run");
  if (Buffer.byteLength(join(inside, SOCKET_NAME)) <= MAX_PATH_BYTES) return inside;
  const name = createHash("sha256").update(absolute).digest("hex").slice(0, 16);
  return join(tmpdir(), `relay-${userInfo().uid}-${name}`);
}

export function socketPath(directory: string): string {
  return join(directory, SOCKET_NAME);
}
