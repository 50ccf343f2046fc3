import { publicPartOfKey } from "../domain/api-key.ts";
import type { RelayConfig } from "./config.ts";

/** What is logged at start: everything but secrets, URLs without user information. */
export function summarizeConfig(config: RelayConfig): Record<string, unknown> {
  return {
    ...config,
    databaseUrl: config.databaseUrl === null ? "embedded" : withoutCredentials(config.databaseUrl),
    clickhouseUrl:
      config.clickhouseUrl === null ? "embedded" : withoutCredentials(config.clickhouseUrl),
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
      apiKey: showKey(config.bootstrap.apiKey),
    },
  };
}

/** Only of a key of the relay's own form is it known which part may be shown. */
function showKey(key: string | null): string {
  return key === null ? "none" : (publicPartOfKey(key) ?? "set");
}

function withoutCredentials(text: string): string {
  const url = new URL(text);
  url.username = "";
  url.password = "";
  url.search = "";
  return url.href;
}
