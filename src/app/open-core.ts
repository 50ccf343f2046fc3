import { randomBytes } from "node:crypto";
import { migrateClickHouse, NewerSchemaError } from "../adapters/clickhouse/migrate.ts";
import { makeBundleReader } from "../adapters/postgres/bundle-reader.ts";
import { makeConfigCache } from "../management/config-cache.ts";
import { makeSecretBox } from "../management/secret-box.ts";
import { UsageError } from "../domain/errors.ts";
import type { Core } from "./core.ts";
import { loadEncryptionKey } from "./encryption-key.ts";
import { nameClickHouse, namePostgres, namingStore } from "./explain-store-error.ts";
import { followConfiguration } from "./follow-configuration.ts";
import { refuseOthersLog } from "./installation.ts";
import { makeLateTokens } from "./late-tokens.ts";
import { openConfigStore, type OpenConfigStore } from "./open-config-store.ts";
import { needsEventStore, type DataDirUse } from "./open-data-dir.ts";
import { openEventStore, type EventStoreClients } from "./open-event-store.ts";
import { openLog } from "./open-log.ts";
import { openSender } from "./outbound.ts";
import { opened, type Part, type Supervisor } from "./supervisor.ts";

export type CoreOptions = Pick<
  Core,
  "config" | "clock" | "logger" | "supervisor" | "registry" | "watchLag"
> & {
  readonly dataDir: DataDirUse;
  readonly templateFile: string | null;
  /** Tells `/metrics` whether configuration changes are pushed. */
  readonly watchFeed: (listening: () => boolean) => void;
};

/** Opens the stores and what every role is built on, as supervised parts, which disposing the supervisor closes. */
export async function openCore(options: CoreOptions): Promise<Core> {
  const { config, clock, logger, supervisor, registry, watchLag, watchFeed } = options;
  const { key, madeFile } = await loadEncryptionKey(config.encryptionKey, config.dataDir);
  const box = makeSecretBox({ key, randomBytes });
  const { configStore, eventStore, log } = await openStores(options);
  const sender = openSender(config);
  await supervisor.add(opened("sender", sender));
  const tokens = makeLateTokens();
  const cache = makeConfigCache(
    {
      reader: makeBundleReader(configStore.lookups),
      box,
      clock,
      logger,
      isOurToken: (token) => tokens.isOurs(token),
    },
    { ttlMs: config.configTtlMs },
  );
  const configuration = followConfiguration({
    store: configStore,
    cache,
    box,
    tokens,
    madeKeyFile: madeFile,
    isAttached: options.dataDir.mode === "attach",
    clock,
    watchFeed,
    refuseOthersLog: (installation) =>
      refuseOthersLog(log, installation, {
        topicPrefix: config.kafka?.topicPrefix ?? "",
        logger,
        clock,
      }),
  });
  await supervisor.add(namingStore(namePostgres(config), configuration), { tolerant: true });
  if (eventStore !== null) {
    const schema = eventSchema(eventStore.writes, config);
    await supervisor.add(namingStore(nameClickHouse(config), schema), { tolerant: true });
  }
  return {
    config,
    clock,
    logger,
    supervisor,
    registry,
    log,
    cache,
    box,
    tokens,
    configStore,
    sender,
    publicIngestUrl: config.publicIngestUrl ?? `http://localhost:${config.ingest.port}`,
    eventStore,
    watchLag,
  };
}

interface Stores {
  readonly configStore: OpenConfigStore;
  readonly eventStore: EventStoreClients | null;
  readonly log: Core["log"];
}

/**
 * Opens the stores side by side, since each engine takes a second or two to start. One that fails does not leave the others open.
 */
async function openStores(options: CoreOptions): Promise<Stores> {
  const { config, dataDir, templateFile, clock, logger, supervisor, registry } = options;
  const embeddedMode = dataDir.mode === "attach" ? "attach" : "serve";
  const eventStore = needsEventStore(config)
    ? openEventStore({
        clickhouseUrl: config.clickhouseUrl,
        dataDir: config.dataDir,
        logger,
        supervisor,
      })
    : Promise.resolve(null);
  const configStore = superviseOnceOpen(
    "postgres",
    openConfigStore({
      databaseUrl: config.databaseUrl,
      dataDir: config.dataDir,
      embeddedMode,
      templateFile,
      clock,
      logger,
    }),
    supervisor,
  );
  const log = superviseOnceOpen(
    "log",
    openLog({ config, dataDirMode: dataDir.mode, clock, logger, registry }),
    supervisor,
  );
  await Promise.allSettled([eventStore, configStore, log]);
  return { configStore: await configStore, eventStore: await eventStore, log: await log };
}

async function superviseOnceOpen<T extends AsyncDisposable>(
  name: string,
  opening: Promise<T>,
  supervisor: Supervisor,
): Promise<T> {
  const store = await opening;
  await supervisor.add(opened(name, store));
  return store;
}

function eventSchema(
  client: EventStoreClients["writes"],
  { retentionDays, clickhouseCluster, clickhouseUrl }: Core["config"],
): Part {
  return {
    name: "event-schema",
    start: async () => {
      try {
        await migrateClickHouse(client, { retentionDays, cluster: clickhouseCluster ?? undefined });
      } catch (error) {
        // Nothing else would bring the embedded one back to what this version knows.
        if (clickhouseUrl === null && error instanceof NewerSchemaError)
          throw new UsageError(error.message, { cause: error });
        throw error;
      }
      return { [Symbol.asyncDispose]: async () => {} };
    },
  };
}
