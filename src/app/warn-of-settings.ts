import type { RelayConfig } from "../config/config.ts";
import type { Logger } from "../domain/logger.ts";
import type { DataDirUse } from "./open-data-dir.ts";

type Settings = Pick<
  RelayConfig,
  | "roles"
  | "kafka"
  | "databaseUrl"
  | "clickhouseUrl"
  | "unused"
  | "bootstrap"
  | "encryptionKey"
  | "ingest"
  | "publicIngestUrl"
>;

/** What the example keys in `deploy/` and `config/` contain, the encryption keys once decoded from base64. */
const EXAMPLE_KEY = /change-me|example/;

/** Hosts on which the ingest is also reachable at http://localhost. */
const ON_LOCALHOST: ReadonlySet<string> = new Set([
  "0.0.0.0",
  "::",
  "localhost",
  "127.0.0.1",
  "::1",
]);

/**
 * Warns of settings without effect, of publicly known keys, of URLs where nobody listens, and of combinations of stores
 * that work but lose sight of webhooks.
 */
export function warnOfSettings(
  settings: Settings,
  dataDirMode: DataDirUse["mode"],
  logger: Logger,
): void {
  const { roles, unused } = settings;
  const examples = exampleKeys(settings);
  if (examples.length > 0)
    logger.warn(
      { settings: examples, mend: "make your own before others can reach this relay" },
      "relay.example_keys",
    );
  if (unused.length > 0)
    logger.warn(
      {
        unused,
        mend: "set what they belong to (KAFKA_BROKERS, or RELAY_BOOTSTRAP_API_KEY), or unset them",
      },
      "relay.settings_unused",
    );
  if (roles.includes("ingest") && !isAtItsUrl(settings))
    logger.warn(
      {
        host: settings.ingest.host,
        mend: "set RELAY_PUBLIC_INGEST_URL: URLs of endpoints begin with http://localhost, where the ingest does not listen",
      },
      "relay.ingest_not_at_its_url",
    );
  if (dataDirMode === "serve") warnOfEmbeddedStores(settings, logger);
}

/** Warns where other processes would need the stores that are embedded in this one. */
function warnOfEmbeddedStores(
  { roles, kafka, databaseUrl, clickhouseUrl }: Settings,
  logger: Logger,
): void {
  if (kafka !== null) {
    // Kafka spreads the events over all processes, whatever stores they have.
    const own = [
      ...(databaseUrl === null ? ["DATABASE_URL"] : []),
      ...(clickhouseUrl === null ? ["CLICKHOUSE_URL"] : []),
    ];
    logger.warn(
      {
        unset: own,
        mend: "set these before a second process uses this Kafka: in another directory it would have stores of its own",
      },
      "relay.stores_not_shared",
    );
  } else if (!roles.includes("delivery")) {
    // The owner of an embedded log is the only process that can record and deliver what is in it.
    logger.warn(
      {
        roles,
        mend: "add delivery to RELAY_ROLES, since no other process can do it on this directory; or, where others deliver, set KAFKA_BROKERS as they have",
      },
      "relay.nobody_delivers",
    );
  }
}

/** Returns whether the ingest listens where the endpoints' URLs point; without a public URL they point to this machine. */
export function isAtItsUrl({
  ingest,
  publicIngestUrl,
}: Pick<RelayConfig, "ingest" | "publicIngestUrl">): boolean {
  return publicIngestUrl !== null || ON_LOCALHOST.has(ingest.host.toLowerCase());
}

function exampleKeys({ bootstrap, encryptionKey }: Settings): string[] {
  const keys = {
    RELAY_BOOTSTRAP_API_KEY: bootstrap.apiKey ?? "",
    RELAY_ENCRYPTION_KEY: Buffer.from(encryptionKey ?? "", "base64").toString("latin1"),
  };
  return Object.entries(keys).flatMap(([name, key]) => (EXAMPLE_KEY.test(key) ? [name] : []));
}
