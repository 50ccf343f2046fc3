import { INGEST_PATH } from "../domain/ingest-path.ts";

/** Returns the address that a provider posts to; slashes at the end of `base` are dropped. */
export function ingestUrlOf(base: string, token: string): string {
  return `${base.replace(/\/+$/, "")}${INGEST_PATH}${token}`;
}
