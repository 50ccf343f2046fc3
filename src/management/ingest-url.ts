import { INGEST_PATH } from "../domain/ingest-path.ts";

/** The address that a provider posts to. `base` without a slash at the end. */
export function ingestUrlOf(base: string, token: string): string {
  return `${base.replace(/\/+$/, "")}${INGEST_PATH}${token}`;
}
