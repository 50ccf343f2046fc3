import { readFile } from "node:fs/promises";
import { parseDatabaseUrl } from "../config/database-url.ts";
import { systemReason, UsageError } from "../domain/errors.ts";

const FILE_PARAMETERS = ["sslrootcert", "sslcert", "sslkey"] as const;

/**
 * The driver reads these files for each connection: without one it says of a server that is there that it cannot be reached.
 * @throws {UsageError} that names the file which cannot be read
 */
export async function refuseUnreadableCertificates(databaseUrl: string): Promise<void> {
  const parameters = parseDatabaseUrl(databaseUrl)?.searchParams;
  for (const name of FILE_PARAMETERS) {
    const path = parameters?.getAll(name).at(-1);
    if (path === undefined) continue;
    try {
      await readFile(path);
    } catch (cause) {
      throw new UsageError(
        `DATABASE_URL has ${name}=${path}, which cannot be read (${systemReason(cause)}): name a PEM file that this user may read`,
        { cause },
      );
    }
  }
}
