import { mkdir, readFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { replaceFile } from "../replace-file.ts";

/** How the running child is reached, so that further processes of the same user can attach to it. */
export interface Credentials {
  /** Empty while the child is starting. */
  readonly url: string;
  readonly pid: number;
  /** Tells it from a later process with the same pid. Null if that is not known; files of an earlier version lack it. */
  readonly startedAt: string | null;
}

function credentialsPath(dataDir: string): string {
  return join(dataDir, "run", "clickhouse.json");
}

/** Returns null if there is no file, or an unreadable one. */
export async function readCredentials(dataDir: string): Promise<Credentials | null> {
  try {
    const parsed: unknown = JSON.parse(await readFile(credentialsPath(dataDir), "utf8"));
    const { url, pid, startedAt = null } = parsed as Partial<Credentials>;
    return typeof url === "string" && typeof pid === "number" ? { url, pid, startedAt } : null;
  } catch {
    return null;
  }
}

export async function writeCredentials(dataDir: string, credentials: Credentials): Promise<void> {
  const path = credentialsPath(dataDir);
  await mkdir(dirname(path), { recursive: true, mode: 0o700 });
  await replaceFile(path, `${JSON.stringify(credentials)}\n`);
}
