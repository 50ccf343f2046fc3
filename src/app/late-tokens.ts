import { randomBytes } from "node:crypto";
import { RelayError } from "../domain/errors.ts";
import { makeIngestTokens, type IngestTokens } from "../management/ingest-token.ts";

export interface LateTokens extends IngestTokens {
  load(key: Uint8Array): void;
}

/**
 * Makes ingest tokens whose key is yet to be read from PostgreSQL: until then every token may be ours, and none can be made.
 */
export function makeLateTokens(): LateTokens {
  let tokens: IngestTokens | null = null;
  return {
    load(key) {
      tokens = makeIngestTokens(key, randomBytes);
    },
    mint() {
      if (tokens === null)
        throw new RelayError(
          "unavailable",
          "The configuration store cannot be reached; try again.",
        );
      return tokens.mint();
    },
    isOurs: (token) => tokens?.isOurs(token) ?? true,
  };
}
