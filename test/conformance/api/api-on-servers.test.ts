import { randomBytes } from "node:crypto";
import { describe } from "vitest";
import { startRealHarness } from "../../support/api-real-harness.ts";
import { startSwitchedProxy } from "../../support/api-switch.ts";
import { startTestClickHouse } from "../../support/clickhouse.ts";
import { startPostgres } from "../../support/stores/postgres.ts";
import { skipOrFail } from "../../support/stores/skip-or-fail.ts";
import { describeApiConformance } from "./api-conformance.ts";

/** Starts stores given by URL, each behind a proxy that can be cut: only here can every operation meet a store that is down. */
async function startOnServers(postgres: Awaited<ReturnType<typeof startPostgres>>) {
  const clickhouse = await startTestClickHouse();
  const postgresUrl = new URL(postgres.url);
  const clickhouseUrl = new URL(clickhouse.url);
  const ways = await Promise.all(
    [postgresUrl, clickhouseUrl].map((url) => startSwitchedProxy(Number(url.port))),
  );
  [postgresUrl, clickhouseUrl].forEach((url, index) => {
    url.hostname = "127.0.0.1";
    url.port = String(ways[index]?.port);
  });
  const harness = await startRealHarness({
    ways,
    env: {
      DATABASE_URL: postgresUrl.href,
      CLICKHOUSE_URL: clickhouseUrl.href,
      RELAY_ENCRYPTION_KEY: randomBytes(32).toString("base64"),
    },
  });
  return {
    ...harness,
    async [Symbol.asyncDispose]() {
      await harness[Symbol.asyncDispose]();
      for (const way of ways) await way[Symbol.asyncDispose]();
      await clickhouse[Symbol.asyncDispose]();
      await postgres[Symbol.asyncDispose]();
    },
  };
}

const postgres = await startPostgres().catch((error: unknown) => {
  skipOrFail("PostgreSQL", error);
  return null;
});
if (postgres === null) describe.skip("the management API on stores given by URL");
else
  describeApiConformance("the started service with stores given by URL", () =>
    startOnServers(postgres),
  );
