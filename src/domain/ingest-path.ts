/** Path of incoming webhooks; the endpoint's token follows it. */
export const INGEST_PATH = "/in/";

/** Returns the token in an ingest path, with whatever follows it; empty if the path is no ingest path. */
export function tokenIn(path: string): string {
  return path.startsWith(INGEST_PATH) ? path.slice(INGEST_PATH.length) : "";
}
