import { connectClickHouse } from "../adapters/clickhouse/connect.ts";
import { migrateClickHouse } from "../adapters/clickhouse/migrate.ts";
import { loadConfig } from "../config/load-config.ts";
import { printLine, type CommandIo } from "./io.ts";
import { withConfigStore } from "./with-config-store.ts";

/** `relay migrate`: PostgreSQL, and ClickHouse where it is given by URL (the embedded one is migrated at start). */
export async function migrate(io: CommandIo): Promise<void> {
  const config = loadConfig(io.env);
  await withConfigStore(io, async () => printLine(io.stdout, "PostgreSQL: up to date"));
  if (config.clickhouseUrl === null) {
    printLine(io.stdout, "ClickHouse: embedded, brought up to date at start");
    return;
  }
  const client = connectClickHouse(config.clickhouseUrl);
  try {
    const { applied } = await migrateClickHouse(client, {
      retentionDays: config.retentionDays,
      cluster: config.clickhouseCluster ?? undefined,
    });
    printLine(
      io.stdout,
      `ClickHouse: up to date${applied.length === 0 ? "" : ` (applied: ${applied.join("; ")})`}`,
    );
  } finally {
    await client.close();
  }
}
