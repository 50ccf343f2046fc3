import { join } from "node:path";

/** Returns the file in which an embedded relay keeps the API key that it made at its first start (0600). */
export function firstKeyFile(dataDir: string): string {
  return join(dataDir, "first-api-key");
}
