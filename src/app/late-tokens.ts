import { randomBytes } from "node:crypto";
import { RelayError } from "../domain/errors.ts";
import { installationOf } from "./installation.ts";
import { makeIngestTokens, type IngestTokens } from "../management/ingest-token.ts";

export interface LateTokens extends IngestTokens {
  load(key: Uint8Array): void;
  /** The name of the relay that has this database; null until the key is read. */
  readonly installation: string | null;
}

/**
 * Makes ingest tokens whose key is yet to be read from PostgreSQL: until then every token may be ours, and none can be made.
 */
export function makeLateTokens(): LateTokens {
  let tokens: IngestTokens | null = null;
  let installation: string | null = null;
  return {
    get installation() {
      return installation;
    },
    load(key) {
      installation = installationOf(key);
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
