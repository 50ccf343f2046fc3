import { INGEST_PATH } from "../domain/ingest-path.ts";

/** Returns the address that a provider posts to. @param base without a slash at the end */
export function ingestUrlOf(base: string, token: string): string {
  return base + INGEST_PATH + token;
}
