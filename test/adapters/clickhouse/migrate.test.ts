import type { ClickHouseClient } from "@clickhouse/client";
import { afterAll, beforeAll, expect, it } from "vitest";
import { connectClickHouse } from "../../../src/adapters/clickhouse/connect.ts";
import { connectLookups } from "../../../src/adapters/clickhouse/lookups.ts";
import { migrateClickHouse } from "../../../src/adapters/clickhouse/migrate.ts";
import { toStoreError } from "../../../src/adapters/clickhouse/store-error.ts";
import { startTestClickHouse, type TestClickHouse } from "../../support/clickhouse.ts";

let clickhouse: TestClickHouse;
beforeAll(async () => {
  clickhouse = await startTestClickHouse();
});
afterAll(async () => {
  await clickhouse[Symbol.asyncDispose]();
});

function urlOf(database: string): string {
  const url = new URL(clickhouse.url);
  url.pathname = database;
  return url.href;
}

/** A client whose user may read and write rows, and nothing else. */
function withoutRights(client: ClickHouseClient): ClickHouseClient {
  const command = ({ query }: { readonly query: string }) =>
    Promise.reject(new Error(`Not enough privileges: ${query}`));
  return Object.assign(Object.create(client) as ClickHouseClient, { command });
}

it("regression: a user that may make no tables finds a migrated database up to date: it never became ready", async () => {
  const reader = withoutRights(clickhouse.client);
  await expect(migrateClickHouse(reader, { retentionDays: 30 })).rejects.toThrow(/Not enough/);
  await migrateClickHouse(clickhouse.client, { retentionDays: 30 });
  expect(await migrateClickHouse(reader, { retentionDays: 30 })).toEqual({ applied: [] });
});

it("regression: a database in the URL is percent-decoded, by both clients: one with a blank did not exist", async () => {
  await clickhouse.client.command({ query: "CREATE DATABASE `relay of ours`" });
  const url = urlOf("/relay of ours");
  const [client, lookups] = [connectClickHouse(url), connectLookups(url)];
  try {
    const { applied } = await migrateClickHouse(client, { retentionDays: 30 });
    expect(applied).not.toEqual([]);
    const rows = await lookups.ask("SELECT currentDatabase() AS name", {}, {}, never());
    expect(rows).toEqual([{ name: "relay of ours" }]);
  } finally {
    await Promise.all([client.close(), lookups.close()]);
  }
});

it("regression: a database that does not exist counts as unavailable: the API answered 500", async () => {
  const lookups = connectLookups(urlOf("/nowhere"));
  const failure: unknown = await lookups.ask("SELECT 1", {}, {}, never()).catch(toStoreError);
  await lookups.close();
  expect(failure).toMatchObject({ code: "store_unavailable" });
});

function never(): AbortSignal {
  return new AbortController().signal;
}
