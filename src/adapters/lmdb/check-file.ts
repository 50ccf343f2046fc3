import { open } from "node:fs/promises";
import { LogError } from "../../domain/log.ts";

const MAGIC = 0xbeefc0de;
const PAGE_HEAD_BYTES = { fork: 24, original: 16 };

/**
 * lmdb ends the whole process when it is given a file that is none of its own: look first.
 * @throws {LogError} `log_unavailable` when the file is there and not an LMDB one
 */
export async function checkLogFile(path: string): Promise<void> {
  const head = Buffer.alloc(64);
  let read = 0;
  try {
    await using file = await open(path);
    read = (await file.read(head, 0, head.length, 0)).bytesRead;
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code === "ENOENT") return;
    throw new LogError("log_unavailable", `the log ${path} cannot be read`, { cause });
  }
  if (read === 0) return;
  const known = Object.values(PAGE_HEAD_BYTES).some((at) => head.readUInt32LE(at) === MAGIC);
  if (!known)
    throw new LogError(
      "log_unavailable",
      `${path} is not a log: restore it from a backup, or move it away`,
    );
}
