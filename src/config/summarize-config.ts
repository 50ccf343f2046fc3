import { publicPartOfKey } from "../domain/api-key.ts";
import type { RelayConfig } from "./config.ts";
import { parseDatabaseUrl } from "./database-url.ts";

/** Returns what is logged at start: everything but secrets, with URLs stripped of user information. */
export function summarizeConfig(config: RelayConfig): Record<string, unknown> {
  return {
    ...config,
    databaseUrl: config.databaseUrl === null ? "embedded" : describeDatabaseUrl(config.databaseUrl),
    clickhouseUrl:
      config.clickhouseUrl === null
        ? "embedded"
        : withoutCredentials(new URL(config.clickhouseUrl)),
    kafka:
      config.kafka === null
        ? "embedded log"
        : {
            ...config.kafka,
            sasl:
              config.kafka.sasl === null
                ? null
                : { mechanism: config.kafka.sasl.mechanism, username: config.kafka.sasl.username },
          },
    encryptionKey: config.encryptionKey === null ? "embedded" : "set",
    bootstrap: {
      org: config.bootstrap.org,
      apiKey: describeKey(config.bootstrap.apiKey),
    },
  };
}

/** Shows the public part of a key of the relay's own form; in any other key, no part is known to be public. */
function describeKey(key: string | null): string {
  return key === null ? "none" : (publicPartOfKey(key) ?? "set");
}

/** Returns where a PostgreSQL server is, without user information and options, for logs and errors. */
export function describeDatabaseUrl(text: string): string {
  const url = parseDatabaseUrl(text);
  return url === null ? "DATABASE_URL" : withoutCredentials(url);
}

/** Returns where a store is, without user information and options, for logs and errors. */
export function withoutCredentials(url: URL): string {
  url.username = "";
  url.password = "";
  url.search = "";
  return url.href;
}
