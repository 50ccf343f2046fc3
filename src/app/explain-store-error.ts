import type { RelayConfig } from "../config/config.ts";
import { describeDatabaseUrl, withoutCredentials } from "../config/summarize-config.ts";
import { RelayError, UsageError } from "../domain/errors.ts";
import { codeOf } from "../domain/thrown.ts";
import { tlsAdvice } from "../domain/tls-advice.ts";
import type { Part } from "./supervisor.ts";

/** Names the PostgreSQL in use for error messages, without credentials. */
export function namePostgres({ databaseUrl }: Pick<RelayConfig, "databaseUrl">): string {
  if (databaseUrl === null) return "the embedded PostgreSQL";
  return `PostgreSQL at ${describeDatabaseUrl(databaseUrl)}`;
}

/** Names the ClickHouse in use for error messages, without credentials. */
export function nameClickHouse({ clickhouseUrl }: Pick<RelayConfig, "clickhouseUrl">): string {
  if (clickhouseUrl === null) return "the embedded ClickHouse";
  return `ClickHouse at ${withoutCredentials(new URL(clickhouseUrl))}`;
}

/** Returns the part with its store named in whatever its start throws. */
export function namingStore(store: string, part: Part): Part {
  return {
    ...part,
    start: async (failed) => {
      try {
        return await part.start(failed);
      } catch (error) {
        throw explainStoreError(store, error);
      }
    },
  };
}

/** Codes of the system, but not of Node or OpenSSL, whose messages say more. */
const NETWORK_CODE = /^E(?!RR_|PROTO$)[A-Z_]+$/;

/**
 * Makes an error of one line that names the store: network errors by their code, the server's own by their first line.
 * @param store such as `PostgreSQL at postgresql://host/database`, without credentials
 */
export function explainStoreError(store: string, error: unknown): Error {
  if (error instanceof UsageError) return error;
  const root = error instanceof RelayError && error.cause !== undefined ? error.cause : error;
  if (!(root instanceof Error)) return new RelayError("unavailable", `${store} failed`);
  const code = codeOf(root) ?? "";
  const message = NETWORK_CODE.test(code)
    ? `cannot be reached (${code})`
    : `failed: ${root.message.split("\n", 1)[0]?.trim() ?? ""}`;
  const advice = tlsAdvice(root);
  return new RelayError("unavailable", [`${store} ${message}`, ...advice].join(": "), {
    cause: root,
  });
}
