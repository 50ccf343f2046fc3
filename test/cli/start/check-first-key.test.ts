import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, beforeEach, expect, it } from "vitest";
import { openApiKeys } from "../../../src/app/open-api-keys.ts";
import { openConfigStore, type OpenConfigStore } from "../../../src/app/open-config-store.ts";
import { makeSystemClock } from "../../../src/app/system-clock.ts";
import { templateFile } from "../../../src/app/template-file.ts";
import { checkFirstKey } from "../../../src/cli/start/check-first-key.ts";
import { loadConfig } from "../../../src/config/load-config.ts";
import { RelayError } from "../../../src/domain/errors.ts";
import { makeSilentLogger, silentLogger } from "../../support/silent-logger.ts";
import { waitFor } from "../../support/wait-for.ts";

const KEY = "rk_testtest_0123456789abcdefghijklmnop";
const config = loadConfig({
  DATABASE_URL: "postgresql://relay@db.example/relay",
  RELAY_ENCRYPTION_KEY: Buffer.alloc(32).toString("base64"),
  RELAY_BOOTSTRAP_API_KEY: KEY,
});

let dataDir: string;
let store: OpenConfigStore;
let isDown = false;
let lines: string[] = [];
const logger = makeSilentLogger((level, message) => lines.push(`${level} ${message}`));

beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "relay-check-first-key-"));
  const opened = await openConfigStore({
    databaseUrl: null,
    dataDir,
    embeddedMode: "serve",
    templateFile: templateFile(),
    clock: makeSystemClock(),
    logger: silentLogger,
  });
  await opened.migrate();
  const run: typeof opened.database.run = (...statement) =>
    isDown
      ? Promise.reject(new RelayError("unavailable", "away"))
      : opened.database.run(...statement);
  store = { ...opened, database: { ...opened.database, run } };
  // The operator's key is another organization's.
  await openApiKeys(store).ensureBootstrap("another", KEY);
}, 60_000);
afterAll(async () => {
  await store[Symbol.asyncDispose]();
  await rm(dataDir, { recursive: true, force: true });
});
beforeEach(() => {
  lines = [];
});

it("a key that cannot be used ends a start beside a PostgreSQL by URL, too", async () => {
  isDown = false;
  const { signal } = new AbortController();
  await expect(checkFirstKey({ config, store, logger, signal })).rejects.toThrow(
    /belongs to another organization/,
  );
  expect(lines).toEqual([]);
});

it("a key that turns out to be of no use once the store is back is told once, and left", async () => {
  isDown = true;
  const stop = new AbortController();
  const { signal } = stop;
  expect(await checkFirstKey({ config, store, logger, signal })).toEqual({ kind: "none" });
  expect(lines).toEqual(["warn relay.bootstrap_key_not_checked"]);
  isDown = false;
  await waitFor("the refusal", () => lines.length > 1);
  await delay(2_500);
  expect(lines.slice(1)).toEqual(["error relay.bootstrap_key_refused"]);
  stop.abort();
}, 60_000);
