import { ClickHouseError, type ClickHouseClient } from "@clickhouse/client";
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

/** A client for which `before` runs ahead of each statement that changes something; what it throws ends the migration, as a kill would. */
function interrupted(
  client: ClickHouseClient,
  before: (statement: string) => Promise<void>,
): ClickHouseClient {
  const command = async (given: { readonly query: string }) => {
    await before(given.query);
    return client.command(given);
  };
  return Object.assign(Object.create(client) as ClickHouseClient, { command });
}

async function tablesOf(client: ClickHouseClient): Promise<readonly string[]> {
  const answer = await client.query({
    query:
      "SELECT extract(create_table_query, '\\\\(.*') AS made FROM system.tables WHERE database = currentDatabase() ORDER BY name",
    format: "JSONEachRow",
  });
  return (await answer.json<{ made: string }>()).map(({ made }) => made);
}

it("regression: an index that was replaced meanwhile, added anew by a process that was then killed, is gone after the next migration", async () => {
  await clickhouse.client.command({ query: "CREATE DATABASE killed" });
  await clickhouse.client.command({ query: "CREATE DATABASE fresh" });
  const [client, fresh] = [connectClickHouse(urlOf("killed")), connectClickHouse(urlOf("fresh"))];
  const options = { retentionDays: 30 };
  try {
    let hasAdded = false;
    const slower = interrupted(client, async (statement) => {
      if (hasAdded) throw new Error("killed");
      hasAdded = statement.includes("ADD INDEX IF NOT EXISTS leaves_filter ");
      if (hasAdded) await migrateClickHouse(client, options);
    });
    await expect(migrateClickHouse(slower, options)).rejects.toThrow("killed");
    await migrateClickHouse(fresh, options);
    expect(await tablesOf(client)).not.toEqual(await tablesOf(fresh));
    expect(await migrateClickHouse(client, options)).toEqual({ applied: [] });
    expect(await tablesOf(client)).toEqual(await tablesOf(fresh));
  } finally {
    await Promise.all([client.close(), fresh.close()]);
  }
});

it("regression: a start that finds all as it should be changes nothing and asks for the tables once: it asked four times, for the events twice", async () => {
  await clickhouse.client.command({ query: "CREATE DATABASE settled" });
  const client = connectClickHouse(urlOf("settled"));
  try {
    await migrateClickHouse(client, { retentionDays: 30 });
    const asked: string[] = [];
    const watched = Object.assign(interrupted(client, refuse), {
      query: (given: Parameters<ClickHouseClient["query"]>[0]) => {
        if (given.query.includes("system.tables")) asked.push(given.query);
        return client.query(given);
      },
    });
    expect(await migrateClickHouse(watched, { retentionDays: 30 })).toEqual({ applied: [] });
    expect(asked).toHaveLength(1);
  } finally {
    await client.close();
  }
});

/** A client whose server tells `row` of its disk, or an error. */
function withDisk(
  client: ClickHouseClient,
  row: () => { readonly path: string; readonly free: string },
): ClickHouseClient {
  const query = async (given: Parameters<ClickHouseClient["query"]>[0]) => {
    if (!given.query.includes("system.disks")) return client.query(given);
    const disk = row();
    return { json: async () => [disk] };
  };
  return Object.assign(Object.create(client) as ClickHouseClient, { query });
}

it("regression: changes no table on a disk that is almost full, says where to make room, and goes on once there is", async () => {
  await clickhouse.client.command({ query: "CREATE DATABASE full_disk" });
  const client = connectClickHouse(urlOf("full_disk"));
  let freeMiB = 70;
  const disk = withDisk(client, () => ({
    path: "/events",
    free: String(freeMiB * 1024 * 1024),
  }));
  try {
    await migrateClickHouse(disk, { retentionDays: 30 });
    const before = await tablesOf(client);
    freeMiB = 63;
    expect(await migrateClickHouse(disk, { retentionDays: 30 })).toEqual({ applied: [] });
    await expect(migrateClickHouse(disk, { retentionDays: 20 })).rejects.toThrow(
      /make room for 64 MiB at least on the disk of \/events \(63 MiB are free\)/,
    );
    expect(await tablesOf(client)).toEqual(before);
    freeMiB = 64;
    await migrateClickHouse(disk, { retentionDays: 20 });
    const refusing = withDisk(client, () => {
      throw new ClickHouseError({ message: "Not enough privileges", code: "497" });
    });
    await migrateClickHouse(refusing, { retentionDays: 25 });
    const [{ engine } = { engine: "" }] = await enginesOf(client);
    expect(engine).toContain("toIntervalDay(25)");
  } finally {
    await client.close();
  }
});

async function enginesOf(client: ClickHouseClient): Promise<readonly { engine: string }[]> {
  const answer = await client.query({
    query:
      "SELECT engine_full AS engine FROM system.tables WHERE database = currentDatabase() AND name = 'events'",
    format: "JSONEachRow",
  });
  return answer.json<{ engine: string }>();
}

async function refuse(statement: string): Promise<void> {
  throw new Error(`not expected: ${statement}`);
}

function never(): AbortSignal {
  return new AbortController().signal;
}
