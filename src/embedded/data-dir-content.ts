import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { UsageError } from "../domain/errors.ts";

/** What a relay or its operator puts into a data directory, drafts and copies of it (`encryption.key.4711`) as well. */
const OURS = /^(?:run|format|postgres|clickhouse|log|encryption\.key|first-api-key)(?:\..*)?$/s;
/** What file systems, volumes and desktops put into any directory: `.snapshot`, `.DS_Store`. */
const ANYBODYS = /^(?:\..*|lost\+found)$/s;
/** What no other program's directory has. Of `run` only the claims: `/` has a `run`, too. */
const MARKS: ReadonlySet<string> = new Set([
  "format",
  "postgres.made",
  "log.made",
  "encryption.key",
  "first-api-key",
]);
const CLAIM = /^owner-\d+\.json$/;

/**
 * Refuses a directory that has other directories in it and was not made by a relay: `/etc`, or a project's. Files alone may be what
 * somebody has put there for the relay, such as its output. A relay's own may hold anything.
 * @throws {UsageError} before anything is written there
 */
export async function refuseForeignDirectory(dir: string): Promise<void> {
  const entries = await readdir(dir, { withFileTypes: true });
  const foreign = entries
    .filter((entry) => entry.isDirectory() && !OURS.test(entry.name) && !ANYBODYS.test(entry.name))
    .map(({ name }) => name)
    .toSorted()[0];
  if (foreign === undefined || entries.some(({ name }) => MARKS.has(name)) || (await hasClaim(dir)))
    return;
  throw new UsageError(
    `the data directory ${dir} was not made by a relay and has other directories in it (${JSON.stringify(foreign)}): set RELAY_DATA_DIR to a directory that is empty or is yet to be made`,
  );
}

/** A relay that ran before there was a file `format` has left one. */
async function hasClaim(dir: string): Promise<boolean> {
  const names = await readdir(join(dir, "run")).catch(() => []);
  return names.some((name) => CLAIM.test(name));
}
