import { open, readdir } from "node:fs/promises";
import { systemReason } from "../../domain/errors.ts";
import { LogError } from "../../domain/log.ts";
import { codeOf } from "../../domain/thrown.ts";

const MAGIC = 0xbeefc0de;
const PAGE_HEAD_BYTES = { fork: 24, original: 16 };
/** Offsets in a meta page, from its magic number: `MDB_meta` of lmdb.h. Each of the first two pages holds one. */
const META = { pageSize: 24, freeRoot: 64, mainRoot: 112, lastPage: 120, transaction: 128 };
const META_BYTES = 136;
/** Allowed to be missing: pages at the end that were allocated and freed in one transaction are counted, but were never written. */
const UNWRITTEN_PAGES = 64;
const LARGEST_PAGE_BYTES = 65_536;

/**
 * Looks at the file first, since lmdb ends the whole process when given one that is not its own or is cut short, and makes one that is
 * missing.
 * @throws {LogError} `log_unavailable` if the file is not an LMDB one, ends before its roots or far before its last page, or is
 * missing although there are segments
 */
export async function checkLogFile(path: string, segmentsDir: string): Promise<void> {
  const head = Buffer.alloc(LARGEST_PAGE_BYTES + META_BYTES + PAGE_HEAD_BYTES.fork);
  let read = 0;
  let sizeBytes = 0;
  try {
    await using file = await open(path);
    read = (await file.read(head, 0, head.length, 0)).bytesRead;
    sizeBytes = (await file.stat()).size;
  } catch (cause) {
    if (codeOf(cause) !== "ENOENT")
      throw new LogError(
        "log_unavailable",
        `the log ${path} cannot be read (${systemReason(cause)})`,
        { cause },
      );
  }
  if (read === 0) return refuseSegments(path, segmentsDir);
  const at = Object.values(PAGE_HEAD_BYTES).find((offset) => head.readUInt32LE(offset) === MAGIC);
  if (at === undefined)
    throw new LogError(
      "log_unavailable",
      `${path} is not a log: restore it from a backup, or move it away`,
    );
  if (isCutShort(head, at, sizeBytes))
    throw new LogError(
      "log_unavailable",
      `${path} is cut short: restore the log's whole directory from a backup, or move it away to begin with an empty log`,
    );
}

/** Returns whether pages lie beyond the end of the file; one of the tree would end the process. `at`: the magic number's offset. */
function isCutShort(head: Buffer, at: number, sizeBytes: number): boolean {
  const pageBytes = head.readUInt32LE(at + META.pageSize);
  if (pageBytes > LARGEST_PAGE_BYTES || sizeBytes < 2 * pageBytes) return true;
  const numberAt = (meta: number, offset: number) => Number(head.readBigUInt64LE(meta + offset));
  const [first, second] = [at, pageBytes + at];
  const isSecondNewer = numberAt(second, META.transaction) > numberAt(first, META.transaction);
  const newest = isSecondNewer ? second : first;
  const pages = Math.floor(sizeBytes / pageBytes);
  // The root of an empty tree is a number that no file reaches.
  const roots = [META.freeRoot, META.mainRoot].map((offset) => numberAt(newest, offset));
  if (roots.some((root) => root >= pages && root < Number.MAX_SAFE_INTEGER)) return true;
  const missing = numberAt(newest, META.lastPage) + 1 - pages;
  return missing > Math.max(UNWRITTEN_PAGES, pages / 4);
}

/** Refuses segments without the file, which is made first: nothing in them would be found, and they would be overwritten. */
async function refuseSegments(path: string, segmentsDir: string): Promise<void> {
  const entries = await readdir(segmentsDir, { withFileTypes: true }).catch(() => []);
  if (entries.some((entry) => entry.isFile() && entry.name.endsWith(".segment")))
    throw new LogError(
      "log_unavailable",
      `${path} is missing or empty, and ${segmentsDir} holds records: restore the log's whole directory from a backup, or move it away to begin with an empty log`,
    );
}
