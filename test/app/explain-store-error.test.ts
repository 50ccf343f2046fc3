import { expect, it } from "vitest";
import {
  explainStoreError,
  nameClickHouse,
  namePostgres,
  namingStore,
} from "../../src/app/explain-store-error.ts";
import { RelayError, UsageError } from "../../src/domain/errors.ts";

const DATABASE_URL = "postgresql://u:CANARY@db:5432/relay";

function failing(error: Error): Promise<unknown> {
  const part = { name: "configuration", start: () => Promise.reject(error) };
  return namingStore(namePostgres({ databaseUrl: DATABASE_URL }), part)
    .start(() => {})
    .catch((thrown: unknown) => thrown);
}

it("a part that fails names its store, and what that said: whose password was wrong was not told", async () => {
  const cause = Object.assign(new Error("password authentication failed for user u"), {
    code: "28P01",
  });
  const told = await failing(
    new RelayError("unavailable", "The configuration store cannot be reached; try again.", {
      cause,
    }),
  );
  expect(told).toMatchObject({
    message:
      "PostgreSQL at postgresql://db:5432/relay failed: password authentication failed for user u",
  });
  const usage = new UsageError("set RELAY_ENCRYPTION_KEY");
  expect(await failing(usage)).toBe(usage);
});

it("names ClickHouse without credentials, and the embedded stores", () => {
  const store = nameClickHouse({ clickhouseUrl: "http://u:CANARY@ch:8123/nodb" });
  expect(explainStoreError(store, new Error("Database nodb does not exist. "))).toMatchObject({
    message: "ClickHouse at http://ch:8123/nodb failed: Database nodb does not exist.",
  });
  expect(nameClickHouse({ clickhouseUrl: null })).toBe("the embedded ClickHouse");
  expect(namePostgres({ databaseUrl: null })).toBe("the embedded PostgreSQL");
});
