import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { expect, it } from "vitest";
import { connectClickHouse } from "../../../src/adapters/clickhouse/connect.ts";
import { eventCondition } from "../../../src/adapters/clickhouse/filter-sql.ts";
import { refuseOlderServer } from "../../../src/adapters/clickhouse/refuse-older-server.ts";
import { makeEventStoreWriter } from "../../../src/adapters/clickhouse/insert.ts";
import { migrateClickHouse } from "../../../src/adapters/clickhouse/migrate.ts";
import { makeEvent } from "../../support/clickhouse-events.ts";

interface Asked {
  readonly search: URLSearchParams;
  readonly body: string;
}

/** Starts a server that answers as ClickHouse of another version does. */
async function startServer(answer: (asked: Asked, response: ServerResponse) => void) {
  const asked: Asked[] = [];
  const server = createServer((request: IncomingMessage, response) => {
    void text(request).then((body) => {
      const { searchParams } = new URL(request.url ?? "/", "http://localhost");
      asked.push({ search: searchParams, body });
      answer({ search: searchParams, body }, response);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", () => resolve()));
  const client = connectClickHouse(
    `http://127.0.0.1:${(server.address() as AddressInfo).port}/relay`,
  );
  return {
    asked,
    client,
    async [Symbol.asyncDispose]() {
      await client.close();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}

/** Starts one that knows no setting of this name. */
function startWithout(setting: string) {
  return startServer(({ search }, response) => {
    if (!search.has(setting)) return response.end();
    const refused = `Code: 115. DB::Exception: Unknown setting '${setting}'. (UNKNOWN_SETTING)`;
    return response.writeHead(404, { "x-clickhouse-exception-code": "115" }).end(refused);
  });
}

const LEFT_OUT = "exclude_materialize_skip_indexes_on_insert";

it("regression: inserts do without a setting that ClickHouse 25.8 does not know: not one event was recorded", async () => {
  await using server = await startWithout(LEFT_OUT);
  const writer = makeEventStoreWriter(server.client);
  for (const token of ["one", "two"])
    await writer.insertEvents([{ event: makeEvent(1), addTokens: () => {} }], token);
  expect(
    server.asked.map(({ search }) => [
      search.get("insert_deduplication_token"),
      search.has(LEFT_OUT),
    ]),
  ).toEqual([
    ["one", true],
    ["one", false],
    ["two", false],
  ]);
  // All rows once more, not what the first answer had left of them.
  expect(server.asked[1]?.body).toBe(server.asked[0]?.body);
  expect(server.asked[1]?.body).toContain(makeEvent(1).id);
});

it("an insert that another unknown setting fails is refused", async () => {
  await using server = await startWithout("insert_deduplicate");
  const writer = makeEventStoreWriter(server.client);
  const inserted = writer.insertEvents([{ event: makeEvent(1), addTokens: () => {} }], "one");
  await expect(inserted).rejects.toMatchObject({ code: "store_refused" });
  expect(server.asked).toHaveLength(1);
});

it("a search for a field asks the filters of its leaf by a hint, which servers before 26.5 understand: they read every event", () => {
  const { sql } = eventCondition("org_a", { terms: [], token: "a" });
  expect(sql).toMatch(/indexHint\(has\(arrayFilter\(.* = \d, leaves\), {leaf:UInt64}\)\)/);
  expect(sql).toContain("AND has(leaves, {leaf:UInt64})");
});

for (const version of ["24.8.14.10459.altinitystable", "25.4.13.22", "23.12.1.1"])
  it(`ClickHouse ${version} is refused before anything is made: 24.8 got half a schema`, async () => {
    await using server = await startServer((_, response) => {
      response.end(`${JSON.stringify({ version })}\n`);
    });
    await expect(migrateClickHouse(server.client, { retentionDays: 30 })).rejects.toThrow(
      `the ClickHouse of CLICKHOUSE_URL is version ${version}: 25.5 or newer is needed`,
    );
    expect(server.asked).toHaveLength(1);
  });

for (const version of ["25.5.2.1", "25.12.1.1", "26.1.2.1", "of our own"])
  it(`ClickHouse ${version} is not refused`, async () => {
    await using server = await startServer(({ body }, response) => {
      if (body.includes("version()")) response.end(`${JSON.stringify({ version })}\n`);
      else response.writeHead(500, { "x-clickhouse-exception-code": "1" }).end("Code: 1. Next.");
    });
    await expect(migrateClickHouse(server.client, { retentionDays: 30 })).rejects.not.toThrow(
      /is version/,
    );
    expect(server.asked).toHaveLength(2);
  });

it("regression: a server that accepts connections and answers nothing is told of soon: a migration waited for it for more than a minute", async () => {
  await using server = await startServer(() => {});
  await expect(refuseOlderServer(server.client, 200)).rejects.toThrow("no answer within 0.2 s");
});
