import { connectClickHouse } from "../adapters/clickhouse/connect.ts";
import { migrateClickHouse } from "../adapters/clickhouse/migrate.ts";
import { explainStoreError, nameClickHouse } from "../app/explain-store-error.ts";
import type { RelayConfig } from "../config/config.ts";
import { loadConfig } from "../config/load-config.ts";
import { printLine, type CommandIo } from "./io.ts";
import { withConfigStore } from "./with-config-store.ts";

/**
 * `relay migrate`: migrates PostgreSQL, and ClickHouse where it is given by URL (the embedded one is migrated at start).
 * @throws {RelayError} of one line that names the store given by URL that refuses or cannot be reached
 */
export async function migrate(io: CommandIo): Promise<void> {
  const config = loadConfig(io.env);
  await withConfigStore(io, async () => printLine(io.stdout, "PostgreSQL: up to date"));
  if (config.clickhouseUrl === null) {
    printLine(io.stdout, "ClickHouse: embedded, brought up to date at start");
    return;
  }
  try {
    const applied = await bringUpToDate(config.clickhouseUrl, config);
    printLine(
      io.stdout,
      `ClickHouse: up to date${applied.length === 0 ? "" : ` (applied: ${applied.join("; ")})`}`,
    );
  } catch (error) {
    throw explainStoreError(nameClickHouse(config), error);
  }
}

async function bringUpToDate(
  clickhouseUrl: string,
  config: RelayConfig,
): Promise<readonly string[]> {
  const client = connectClickHouse(clickhouseUrl);
  try {
    const { applied } = await migrateClickHouse(client, {
      retentionDays: config.retentionDays,
      cluster: config.clickhouseCluster ?? undefined,
    });
    return applied;
  } finally {
    await client.close();
  }
}
