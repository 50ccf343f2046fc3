import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { systemReason, UsageError } from "../domain/errors.ts";

/** Raise it when an older relay could not use what this one writes, or would destroy it. */
const FORMAT = 1;

/**
 * Checks that this relay knows how the files of a data directory are laid out, by the number in its file `format`. A directory
 * without that file was made before there was one: it has format 1, which is then written.
 * @throws {UsageError} when a newer relay made it
 */
export async function checkFormat(dir: string): Promise<void> {
  const file = join(dir, "format");
  try {
    await writeFile(file, `${FORMAT}\n`, { flag: "wx", mode: 0o600, flush: true });
    return;
  } catch (error) {
    if (systemReason(error) !== "EEXIST") throw error;
  }
  const text = (await readFile(file, "utf8")).trim();
  // Empty: another process is about to write it, or a power cut took what was written.
  if (text === "" || text === String(FORMAT)) return;
  throw new UsageError(
    `the data directory ${dir} has the format ${JSON.stringify(text.slice(0, 20))}, this relay knows ${FORMAT}: start the newer relay, restore a backup of the directory from before it, or set RELAY_DATA_DIR to another one`,
  );
}
