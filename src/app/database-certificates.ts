import { readFile } from "node:fs/promises";
import { parseDatabaseUrl } from "../config/database-url.ts";
import { systemReason, UsageError } from "../domain/errors.ts";

const FILE_PARAMETERS = ["sslrootcert", "sslcert", "sslkey"] as const;

/**
 * Checks the certificate files that the URL names. The driver reads them for each connection, and without one it
 * reports a server that is up as unreachable.
 * @throws {UsageError} that names the file that cannot be read
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
