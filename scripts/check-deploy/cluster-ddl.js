// The statements that create the tables of a ClickHouse cluster, from the program's own migrations.
import { existsSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { tsImport } from "tsx/esm/api";
import { readText } from "./files.js";

const FILE = "deploy/clickhouse/cluster.sql";
const HEAD = `-- The tables of a ClickHouse cluster: Replicated ones on every node, Distributed ones before them.
-- Written by: node scripts/check-deploy.js --write-cluster-ddl   (30 days of retention, cluster name relay)
-- Every node needs the macros {shard} and {replica}, and ClickHouse Keeper. See deploy/README.md.
`;

/** Rewrites the file with `write`; otherwise reports when it differs from the program's schema. */
export async function checkClusterDdl({ root, report, write }) {
  const { schemaStatements } = await tsImport(
    "../../src/adapters/clickhouse/migrate.ts",
    import.meta.url,
  );
  const statements = schemaStatements({ retentionDays: 30, cluster: "relay" });
  const wanted = `${HEAD}\n${statements.map((statement) => `${statement};\n`).join("\n")}`;
  if (write) writeFileSync(join(root, FILE), wanted);
  const actual = existsSync(join(root, FILE)) ? readText(root, FILE) : "";
  report.expect(
    actual === wanted,
    FILE,
    "differs from the schema: run node scripts/check-deploy.js --write-cluster-ddl",
  );
}
