import { expect, it } from "vitest";
import type { Database, RunSql, SqlRow } from "../../../src/adapters/postgres/database.ts";
import { migrate } from "../../../src/adapters/postgres/migrate.ts";
import { UsageError } from "../../../src/domain/errors.ts";
import { toError } from "../../../src/domain/thrown.ts";

/** Returns the error of a migration of a database whose server says that it is of this version, and which statements it was sent. */
async function migrateOn(name: string, major: number, ledger: readonly SqlRow[] = []) {
  const asked: string[] = [];
  const run: RunSql = async (text) => {
    asked.push(text);
    if (text.includes("server_version")) return [{ name, major }];
    if (text.includes("server_encoding")) return [{ encoding: "UTF8" }];
    return text.startsWith("SELECT name FROM relay_migrations") ? ledger : [];
  };
  const database: Database = {
    run,
    transaction: (work) => work(run),
    [Symbol.asyncDispose]: async () => {},
  };
  return { error: await migrate(database).then(() => null, toError), asked };
}

it("regression: a PostgreSQL that is too old is named with the least that is needed: a syntax error was", async () => {
  const { error, asked } = await migrateOn("10.23", 10);
  expect(error).toBeInstanceOf(UsageError);
  expect(error?.message).toBe(
    "the PostgreSQL of DATABASE_URL is version 10.23: 11 or newer is needed",
  );
  expect(asked.filter((text) => text.includes("CREATE TRIGGER"))).toEqual([]);
});

it("PostgreSQL 11 is not refused", async () => {
  const { error, asked } = await migrateOn("11.22", 11);
  expect(error).toBeNull();
  expect(asked.filter((text) => text.includes("CREATE TRIGGER"))).toHaveLength(1);
});

it("a database that was migrated is not asked for its version again", async () => {
  const { error, asked } = await migrateOn("10.23", 10, [{ name: "0001-configuration" }]);
  expect(error).toBeNull();
  expect(asked.filter((text) => text.includes("server_version"))).toEqual([]);
});
