import { fileURLToPath } from "node:url";
import { afterAll, expect, test } from "vitest";
import { openConfigStore } from "../../src/app/open-config-store.ts";
import { makeSystemClock } from "../../src/app/system-clock.ts";
import { RelayError, UsageError } from "../../src/domain/errors.ts";
import { makeSilentLogger } from "../support/silent-logger.ts";
import { startPostgres, type TestPostgresServer } from "../support/stores/postgres.ts";
import { skipOrFail } from "../support/stores/skip-or-fail.ts";
import { waitFor } from "../support/wait-for.ts";

const postgres: TestPostgresServer | Error = await startPostgres().catch((error: Error) => error);
afterAll(async () => {
  if (!(postgres instanceof Error)) await postgres[Symbol.asyncDispose]();
});

test.each(["sslrootcert", "sslcert", "sslkey"])(
  "a %s that cannot be read is named at start: the relay waited for a server that could not be reached",
  async (parameter) => {
    const opening = openConfigStore({
      databaseUrl: `postgresql://u:CANARY@127.0.0.1:1/db?sslmode=verify-full&${parameter}=/no/such.pem`,
      dataDir: "/no/such/directory",
      embeddedMode: "serve",
      templateFile: null,
      clock: makeSystemClock(),
      logger: makeSilentLogger(),
    });
    const refusal: unknown = await opening.catch((error: unknown) => error);
    expect(refusal).toBeInstanceOf(UsageError);
    expect((refusal as Error).message).toBe(
      `DATABASE_URL has ${parameter}=/no/such.pem, which cannot be read (ENOENT): name a PEM file that this user may read`,
    );
  },
);

test("of a parameter that the URL has twice, the last counts, as for the driver", async () => {
  const readable = encodeURIComponent(fileURLToPath(import.meta.url));
  await using store = await openConfigStore({
    databaseUrl: `postgresql://127.0.0.1:1/db?sslrootcert=/no/such.pem&sslrootcert=${readable}`,
    dataDir: "/no/such/directory",
    embeddedMode: "serve",
    templateFile: null,
    clock: makeSystemClock(),
    logger: makeSilentLogger(),
  });
  await expect(store.database.run("SELECT 1")).rejects.toMatchObject({
    cause: { code: "ECONNREFUSED" },
  });
});

test("regression: a lost feed names the PostgreSQL that it lost, without its password: it said `timeout expired`", async () => {
  const told: unknown[] = [];
  await using store = await openConfigStore({
    databaseUrl: "postgres://relay:s3cret@127.0.0.1:1/relay",
    dataDir: "/no/such/directory",
    embeddedMode: "serve",
    templateFile: null,
    clock: makeSystemClock(),
    logger: makeSilentLogger((_, message, fields) =>
      told.push([message, (fields as { readonly err?: unknown }).err]),
    ),
  });
  await using _ = store.follow({ onChange: () => undefined, onGap: () => undefined });
  await waitFor("the first line", () => told.length > 0);
  expect(told[0]).toEqual([
    "config.feed_lost",
    new RelayError(
      "unavailable",
      "PostgreSQL at postgres://127.0.0.1:1/relay cannot be reached (ECONNREFUSED)",
    ),
  ]);
});

const MORE_THAN_CONNECTIONS = 20;

test.skipIf(postgres instanceof Error && skipOrFail("PostgreSQL", postgres))(
  "what webhooks need to know does not wait behind the management API: a pause took effect 20 s late behind a storm of changes",
  async () => {
    if (postgres instanceof Error) return;
    await using store = await openConfigStore({
      databaseUrl: postgres.url,
      dataDir: "/no/such/directory",
      embeddedMode: "serve",
      templateFile: null,
      clock: makeSystemClock(),
      logger: makeSilentLogger(),
    });
    let release = (): void => undefined;
    const held = new Promise<void>((resolve) => (release = resolve));
    const busy = Array.from({ length: MORE_THAN_CONNECTIONS }, () =>
      store.database.transaction(() => held).catch((error: unknown) => error),
    );
    expect(await store.lookups.run("SELECT 1 AS answer")).toEqual([{ answer: 1 }]);
    release();
    await Promise.all(busy);
  },
);
