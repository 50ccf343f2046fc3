import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { runRelay } from "../support/relay-process.ts";

it("relay migrate makes replicated and distributed tables on the cluster that CLICKHOUSE_CLUSTER names, of the retention that is set", async () => {
  const statements: string[] = [];
  const server = createServer((request, response) => {
    let text = decodeURIComponent(new URL(request.url ?? "/", "http://x").search);
    request.on("data", (chunk: Buffer) => (text += chunk.toString()));
    request.on("end", () => {
      statements.push(text);
      response.end();
    });
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const dataDir = await mkdtemp(join(tmpdir(), "relay-migrate-"));
  try {
    const { code, stdout, stderr } = await runRelay(["migrate"], {
      RELAY_DATA_DIR: dataDir,
      CLICKHOUSE_URL: `http://relay:relay@127.0.0.1:${(server.address() as AddressInfo).port}/relay`,
      CLICKHOUSE_CLUSTER: "four_nodes",
      RELAY_RETENTION_DAYS: "400",
    });
    expect({ code, stderr }).toMatchObject({ code: 0 });
    expect(stdout).toContain(
      "ClickHouse: up to date (applied: events, attempts, fanouts; counts for facets; leaf filters of sixteen granules; leaf filters in eight shards; text filters that know what is no UTF-8; events are merged less often; what is shown of one row in one column; fan-outs stand among the attempts)",
    );
  } finally {
    server.close();
    await rm(dataDir, { recursive: true, force: true });
  }
  const made = statements.filter((text) => text.includes("CREATE TABLE"));
  expect(made).toHaveLength(7);
  for (const statement of made) expect(statement).toContain("ON CLUSTER 'four_nodes'");
  for (const table of ["events", "attempts", "fanouts"]) {
    const of = (name: string) => made.find((text) => text.includes(`IF NOT EXISTS ${name} `));
    expect(of(`${table}_local`)).toContain("ReplicatedReplacingMergeTree");
    expect(of(`${table}_local`)).toContain("toIntervalDay(400)");
    expect(of(table)).toContain(`Distributed('four_nodes', currentDatabase(), ${table}_local`);
  }
}, 120_000);
