import { open, readdir } from "node:fs/promises";
import { LogError } from "../../domain/log.ts";

const MAGIC = 0xbeefc0de;
const PAGE_HEAD_BYTES = { fork: 24, original: 16 };

/**
 * lmdb ends the whole process when it is given a file that is none of its own, and makes one that is not there: look first.
 * @throws {LogError} `log_unavailable` when the file is not an LMDB one, or is missing where there are segments
 */
export async function checkLogFile(path: string, segmentsDir: string): Promise<void> {
  const head = Buffer.alloc(64);
  let read = 0;
  try {
    await using file = await open(path);
    read = (await file.read(head, 0, head.length, 0)).bytesRead;
  } catch (cause) {
    if ((cause as NodeJS.ErrnoException).code !== "ENOENT")
      throw new LogError("log_unavailable", `the log ${path} cannot be read`, { cause });
  }
  if (read === 0) return refuseSegments(path, segmentsDir);
  const known = Object.values(PAGE_HEAD_BYTES).some((at) => head.readUInt32LE(at) === MAGIC);
  if (!known)
    throw new LogError(
      "log_unavailable",
      `${path} is not a log: restore it from a backup, or move it away`,
    );
}

/** They are made after the file: without it nothing in them is found, and they would be written anew. */
async function refuseSegments(path: string, segmentsDir: string): Promise<void> {
  const entries = await readdir(segmentsDir, { withFileTypes: true }).catch(() => []);
  if (entries.some((entry) => entry.isFile() && entry.name.endsWith(".segment")))
    throw new LogError(
      "log_unavailable",
      `${path} is missing or empty, and ${segmentsDir} holds records: restore the log's whole directory from a backup, or move it away to begin with an empty log`,
    );
}
