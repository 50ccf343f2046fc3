import { existsSync } from "node:fs";
import { resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { makeLogger } from "../adapters/pino/logger.ts";
import { explainStoreError, namePostgres } from "../app/explain-store-error.ts";
import { openConfigStore, type OpenConfigStore } from "../app/open-config-store.ts";
import { makeSystemClock } from "../app/system-clock.ts";
import { templateFile } from "../app/template-file.ts";
import type { RelayConfig } from "../config/config.ts";
import { loadConfig } from "../config/load-config.ts";
import { RelayError, UsageError } from "../domain/errors.ts";
import { claimDataDir } from "../embedded/data-dir.ts";
import { attachEmbeddedPostgres } from "../embedded/pglite/start.ts";
import { printLine, type CommandIo } from "./io.ts";

/** A relay that is starting serves its database after a few seconds. */
const WAIT_MS = 20_000;
/** Other commands hold it for a second or two each. */
const WAIT_FOR_COMMANDS_MS = 120_000;
const ASK_EVERY_MS = 100;

/**
 * Opens the configuration store beside a running relay, or alone; its schema is brought up to date first.
 * @param options.beside false refuses to work beside a relay whose database is embedded
 * @throws {UsageError} when `beside` is false and there is such a relay
 * @throws {RelayError} of one line that names the store given by URL that refuses or cannot be reached
 */
export async function withConfigStore(
  io: CommandIo,
  work: (store: OpenConfigStore) => Promise<void>,
  options: { readonly beside: boolean } = { beside: true },
): Promise<void> {
  const config = loadConfig(io.env);
  const isMade = config.databaseUrl === null && !existsSync(config.dataDir);
  await using opened = await openUpToDate(config, { io, ...options });
  if (isMade)
    printLine(
      io.stderr,
      `relay: the data directory ${resolve(config.dataDir)} is new: for a relay that has another one, set RELAY_DATA_DIR to that`,
    );
  try {
    await work(opened.store);
  } catch (error) {
    throw explain(config, error);
  }
}

interface UpToDateStore extends AsyncDisposable {
  readonly store: OpenConfigStore;
}

interface OpenOptions {
  readonly io: CommandIo;
  readonly beside: boolean;
}

/**
 * Opens the store alone, or beside the process that has the data directory. Retries, since a process that is starting
 * serves its database after a few seconds, and one that ends leaves the directory to be claimed.
 */
async function openUpToDate(config: RelayConfig, options: OpenOptions): Promise<UpToDateStore> {
  const startedMs = Date.now();
  for (;;) {
    const opened = await openOrWait(config, options);
    if (!("waitsFor" in opened)) return opened;
    if (Date.now() - startedMs > (opened.maxMs ?? WAIT_MS)) throw opened.waitsFor;
    await delay(ASK_EVERY_MS);
  }
}

/** A problem that may pass, and how long it may take. */
interface Waiting {
  readonly waitsFor: unknown;
  readonly maxMs?: number;
}

async function openOrWait(
  config: RelayConfig,
  { io, beside }: OpenOptions,
): Promise<UpToDateStore | Waiting> {
  const { databaseUrl, dataDir } = config;
  // Claimed so that no relay starts on it meanwhile.
  const claim = databaseUrl === null ? await claimDataDir(dataDir, "command") : null;
  if (claim?.kind === "attached" && claim.ownerIs === "command")
    return {
      waitsFor: new UsageError(
        `another command (process ${claim.ownerPid}) works on the data directory ${dataDir}: try again when it has ended`,
      ),
      maxMs: WAIT_FOR_COMMANDS_MS,
    };
  const isBeside = claim?.kind === "attached";
  if (isBeside && (await attachEmbeddedPostgres(dataDir)) === null)
    return {
      waitsFor: new UsageError(
        `the process ${claim.ownerPid} has the data directory ${dataDir} and serves no database there: stop it, or set DATABASE_URL as it has`,
      ),
    };
  if (isBeside && !beside)
    throw new UsageError(
      `a relay runs on the data directory ${dataDir}: stop it before, and start it again after`,
    );
  const owned = claim?.kind === "owner" ? claim : null;
  try {
    const store = await openStore(config, io, isBeside ? "attach" : "serve");
    return {
      store,
      [Symbol.asyncDispose]: async () => {
        await store[Symbol.asyncDispose]();
        await owned?.[Symbol.asyncDispose]();
      },
    };
  } catch (error) {
    await owned?.[Symbol.asyncDispose]();
    const isAway = error instanceof RelayError && error.code === "unavailable";
    if (isBeside && isAway) return { waitsFor: explain(config, error) };
    throw explain(config, error);
  }
}

async function openStore(
  config: RelayConfig,
  io: CommandIo,
  embeddedMode: "serve" | "attach",
): Promise<OpenConfigStore> {
  const store = await openConfigStore({
    databaseUrl: config.databaseUrl,
    dataDir: config.dataDir,
    embeddedMode,
    templateFile: templateFile(),
    clock: makeSystemClock(),
    logger: makeLogger({ level: "warn", pretty: false, destination: io.stderr }),
  });
  try {
    await store.migrate();
    return store;
  } catch (error) {
    await store[Symbol.asyncDispose]();
    throw error;
  }
}

function explain(config: RelayConfig, error: unknown): unknown {
  return config.databaseUrl === null ? error : explainStoreError(namePostgres(config), error);
}
