import { randomBytes } from "node:crypto";
import { makeBundleReader } from "../adapters/postgres/bundle-reader.ts";
import { migrateClickHouse } from "../adapters/clickhouse/migrate.ts";
import { registerAppMetrics } from "../adapters/prometheus/app-metrics.ts";
import { makeMetricsRegistry } from "../adapters/prometheus/registry.ts";
import { makeHttpSender } from "../adapters/undici/http-sender.ts";
import type { RelayConfig } from "../config/config.ts";
import type { Clock } from "../domain/clock.ts";
import { parseCidrs } from "../domain/ip.ts";
import type { Logger } from "../domain/logger.ts";
import { makeConfigCache } from "../management/config-cache.ts";
import { makeSecretBox } from "../management/secret-box.ts";
import type { Core } from "./core.ts";
import { loadEncryptionKey } from "./encryption-key.ts";
import { followConfiguration, makeLateTokens } from "./follow-configuration.ts";
import { makeLagWatch } from "./lag-watch.ts";
import { openDataDir, type DataDirUse } from "./open-data-dir.ts";
import { openConfigStore, type OpenConfigStore } from "./open-config-store.ts";
import { openEventStore, type EventStoreClient } from "./open-event-store.ts";
import { openLog } from "./open-log.ts";
import { startOpsServer } from "./ops-server.ts";
import { reservePort } from "./reserve-port.ts";
import { runApi } from "./run-api.ts";
import { runDelivery } from "./run-delivery.ts";
import { runIngest } from "./run-ingest.ts";
import { makeSupervisor, type PartStatus } from "./supervisor.ts";

export interface RelayOptions {
  readonly config: RelayConfig;
  readonly clock: Clock;
  readonly logger: Logger;
  /** An initialised empty embedded database to start from, made there when missing; null: none. */
  readonly templateFile: string | null;
}

export interface RunningRelay extends AsyncDisposable {
  /** Null for a role that this process does not have. */
  readonly apiPort: number | null;
  readonly ingestPort: number | null;
  readonly opsPort: number;
  readonly publicIngestUrl: string;
  readonly configStore: OpenConfigStore;
  readonly parts: () => readonly PartStatus[];
}

/**
 * The composition root: opens the stores, then starts the roles, in order. Disposing stops in reverse:
 * servers first, then deliveries, then the stores.
 * @throws {UsageError} when something outside must be changed before it can start
 */
export async function startRelay(options: RelayOptions): Promise<RunningRelay> {
  const { clock, logger } = options;
  const supervisor = makeSupervisor({ clock, logger });
  try {
    return await startParts(options, supervisor);
  } catch (error) {
    await supervisor[Symbol.asyncDispose]();
    throw error;
  }
}

async function startParts(
  options: RelayOptions,
  supervisor: Core["supervisor"],
): Promise<RunningRelay> {
  const config = await settlePorts(options.config);
  const metrics = makeMetricsRegistry();
  const lagWatch = makeLagWatch();
  registerAppMetrics(metrics.registry, {
    parts: () =>
      supervisor
        .status()
        .map(({ name, state, restarts }) => ({ name, up: state === "running", restarts })),
    lags: lagWatch.read,
  });
  const ops = await startOpsServer({
    ...config.ops,
    metrics: () => metrics.render(),
    readiness: async () => {
      const parts = supervisor.status();
      return { ready: parts.every((part) => part.state === "running"), parts };
    },
  });
  await supervisor.add({ name: "ops", start: async () => ops });
  const dataDir = await openDataDir(config);
  if (dataDir.mode === "serve")
    await supervisor.add({ name: "data-dir", start: async () => dataDir.claim });

  const core = await openCore(
    { ...options, config },
    { supervisor, dataDir, registry: metrics.registry, watchLag: lagWatch.watch },
  );
  const roles = new Set(config.roles);
  if (roles.has("delivery")) await runDelivery(core);
  const ingest = roles.has("ingest") ? await runIngest(core) : null;
  const api = roles.has("api") ? await runApi(core) : null;
  return {
    apiPort: api?.port ?? null,
    ingestPort: ingest?.port ?? null,
    opsPort: ops.port,
    publicIngestUrl: core.publicIngestUrl,
    configStore: core.configStore,
    parts: () => supervisor.status(),
    [Symbol.asyncDispose]: () => supervisor[Symbol.asyncDispose](),
  };
}

async function openCore(
  { config, clock, logger, templateFile }: RelayOptions,
  {
    supervisor,
    dataDir,
    registry,
    watchLag,
  }: Pick<Core, "supervisor" | "registry" | "watchLag"> & { readonly dataDir: DataDirUse },
): Promise<Core> {
  const needsEvents = config.roles.includes("api") || config.roles.includes("delivery");
  const box = makeSecretBox({
    key: await loadEncryptionKey(config.encryptionKey, config.dataDir),
    randomBytes,
  });
  // The engines start side by side: each of them takes a second or two.
  const [configStore, eventStore, log] = await Promise.all([
    openConfigStore({
      databaseUrl: config.databaseUrl,
      dataDir: config.dataDir,
      embeddedMode: "serve",
      templateFile,
      clock,
      logger,
    }),
    needsEvents
      ? openEventStore({
          clickhouseUrl: config.clickhouseUrl,
          dataDir: config.dataDir,
          logger,
          supervisor,
        })
      : null,
    openLog({ config, dataDirMode: dataDir.mode, clock, logger, registry }),
  ]);
  await supervisor.add({ name: "postgres", start: async () => configStore });
  await supervisor.add({ name: "log", start: async () => log });
  const sender = makeHttpSender({
    allowPrivate: parseCidrs(config.allowPrivateReceivers),
    timeoutMs: config.deliveryTimeoutMs,
  });
  await supervisor.add({ name: "sender", start: async () => sender });
  const tokens = makeLateTokens();
  const cache = makeConfigCache(
    {
      reader: makeBundleReader(configStore.database),
      box,
      clock,
      logger,
      isOurToken: (token) => tokens.isOurs(token),
    },
    { ttlMs: config.configTtlMs },
  );
  await supervisor.add(followConfiguration({ store: configStore, cache, tokens }), {
    tolerant: true,
  });
  if (eventStore !== null) {
    await supervisor.add(eventSchema(eventStore, config.retentionDays), { tolerant: true });
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
    eventStore: async () => {
      if (eventStore === null) throw new Error("this role has no event store");
      return eventStore;
    },
    watchLag,
  };
}

function eventSchema(
  client: EventStoreClient,
  retentionDays: number,
): { readonly name: string; start(): Promise<AsyncDisposable> } {
  return {
    name: "event-schema",
    start: async () => {
      await migrateClickHouse(client, { retentionDays });
      return { [Symbol.asyncDispose]: async () => {} };
    },
  };
}

/** Ports in use are told before the stores open; port 0 (tests, the demo) is settled before anything needs the public URL. */
async function settlePorts(config: RelayConfig): Promise<RelayConfig> {
  const { api, ingest, roles } = config;
  if (roles.includes("api")) await reservePort(api.host, api.port, "RELAY_API_PORT");
  if (!roles.includes("ingest") || ingest.sharePort) return config;
  return {
    ...config,
    ingest: { ...ingest, port: await reservePort(ingest.host, ingest.port, "RELAY_INGEST_PORT") },
  };
}
