import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { syncDirectoryBeside } from "../adapters/lmdb/sync-files.ts";
import { systemReason, UsageError } from "../domain/errors.ts";
import { replaceFile } from "./replace-file.ts";

/**
 * Raise it when an older relay could not use what this one writes, or would destroy it. 2: regions of the log end with a checksum, of
 * which an older relay makes records that there are not, and commits offsets far beyond the end.
 */
const FORMAT = 2;
/** This relay reads what those before it have written, too. */
const KNOWN: ReadonlySet<string> = new Set(Array.from({ length: FORMAT }, (_, i) => `${i + 1}`));

/**
 * Checks that this relay knows how the files of a data directory are laid out, by the number in its file `format`. A directory
 * without that file was made before there was one, or only commands have used it.
 * @throws {UsageError} when a newer relay made it
 */
export async function checkFormat(dir: string): Promise<void> {
  const text = await readFormat(dir);
  // Empty: a power cut took what was written.
  if (text === "" || KNOWN.has(text)) return;
  throw new UsageError(
    `the data directory ${dir} has the format ${JSON.stringify(text.slice(0, 20))}, this relay knows ${FORMAT}: start the newer relay, restore a backup of the directory from before it, or set RELAY_DATA_DIR to another one`,
  );
}

/** Notes that this relay's layout is used from now on: for the process that has the directory and is about to write to its log. */
export async function noteFormat(dir: string): Promise<void> {
  if ((await readFormat(dir)) === String(FORMAT)) return;
  await replaceFile(join(dir, "format"), `${FORMAT}\n`);
  await syncDirectoryBeside(dir);
}

async function readFormat(dir: string): Promise<string> {
  try {
    return (await readFile(join(dir, "format"), "utf8")).trim();
  } catch (error) {
    if (systemReason(error) === "ENOENT") return "";
    throw error;
  }
}
