import type { RelayConfig } from "../config/config.ts";
import type { Logger } from "../domain/logger.ts";
import type { DataDirUse } from "./open-data-dir.ts";

type Stores = Pick<RelayConfig, "roles" | "kafka" | "databaseUrl" | "clickhouseUrl" | "unused">;

/** Warns of settings that do nothing, and of combinations of stores that work, but lose sight of webhooks. */
export function warnOfStores(
  { roles, kafka, databaseUrl, clickhouseUrl, unused }: Stores,
  dataDirMode: DataDirUse["mode"],
  logger: Logger,
): void {
  if (unused.length > 0)
    logger.warn(
      {
        unused,
        mend: "set what they belong to (KAFKA_BROKERS, or RELAY_BOOTSTRAP_API_KEY), or unset them",
      },
      "relay.settings_unused",
    );
  if (dataDirMode !== "serve") return;
  if (kafka === null) {
    // The owner of an embedded log is the only process that can record and deliver what is in it.
    if (!roles.includes("delivery"))
      logger.warn(
        {
          roles,
          mend: "add delivery to RELAY_ROLES, since no other process can do it on this directory; or, where others deliver, set KAFKA_BROKERS as they have",
        },
        "relay.nobody_delivers",
      );
    return;
  }
  // Kafka shares the events out among all processes, whatever stores those have.
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
}
