import { makeLogger } from "../adapters/pino/logger.ts";
import { openConfigStore, type OpenConfigStore } from "../app/open-config-store.ts";
import { makeSystemClock } from "../app/system-clock.ts";
import { templateFile } from "../app/template-file.ts";
import { loadConfig } from "../config/load-config.ts";
import { attachEmbeddedPostgres } from "../embedded/pglite/start.ts";
import type { CommandIo } from "./io.ts";

/** Opens the configuration store beside a running relay, or alone; its schema is brought up to date first. */
export async function withConfigStore(
  io: CommandIo,
  work: (store: OpenConfigStore) => Promise<void>,
): Promise<void> {
  const config = loadConfig(io.env);
  const attached =
    config.databaseUrl === null && (await attachEmbeddedPostgres(config.dataDir)) !== null;
  await using store = await openConfigStore({
    databaseUrl: config.databaseUrl,
    dataDir: config.dataDir,
    embeddedMode: attached ? "attach" : "serve",
    templateFile: templateFile(),
    clock: makeSystemClock(),
    logger: makeLogger({ level: "warn", pretty: false, destination: io.stderr }),
  });
  await store.migrate();
  await work(store);
}
