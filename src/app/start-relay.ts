import { registerAppMetrics } from "../adapters/prometheus/app-metrics.ts";
import { makeMetricsRegistry } from "../adapters/prometheus/registry.ts";
import type { RelayConfig } from "../config/config.ts";
import type { Clock } from "../domain/clock.ts";
import type { Logger } from "../domain/logger.ts";
import type { Core } from "./core.ts";
import { connectionLimit } from "./connection-limit.ts";
import { makeLagWatch } from "./lag-watch.ts";
import { openCore } from "./open-core.ts";
import { openDataDir } from "./open-data-dir.ts";
import type { OpenConfigStore } from "./open-config-store.ts";
import { startOpsServer } from "./ops-server.ts";
import { reservePort } from "./reserve-port.ts";
import { runApi } from "./run-api.ts";
import { runDelivery } from "./run-delivery.ts";
import { runIngest } from "./run-ingest.ts";
import { makeSupervisor, opened, type PartStatus } from "./supervisor.ts";
import { warnOfSettings } from "./warn-of-settings.ts";

export interface RelayOptions {
  readonly config: RelayConfig;
  readonly clock: Clock;
  readonly logger: Logger;
  /** An initialised, empty embedded database to start from, made there when missing; null for none. */
  readonly templateFile: string | null;
  /** Limit of one API key. Default: what the OpenAPI document says. */
  readonly apiRequestsPerSecond?: number;
  /** Runs once everything serves, before `/readyz` says so. Whatever it throws ends the start. */
  readonly beforeReady?: (configStore: OpenConfigStore) => Promise<void>;
  /** When aborted, stops what was begun, at the end of the step under way. */
  readonly signal?: AbortSignal;
}

export interface RunningRelay extends AsyncDisposable {
  /** Null for a role that this process does not have. */
  readonly apiPort: number | null;
  readonly ingestPort: number | null;
  readonly opsPort: number;
  readonly publicIngestUrl: string;
  readonly configStore: OpenConfigStore;
  readonly parts: () => readonly PartStatus[];
  /** Resolves once all parts run: then `/readyz` answers 200. */
  readonly allRunning: () => Promise<void>;
  /** Returns the part that disposing is waiting for, or null. */
  readonly stopping: () => string | null;
}

/**
 * The composition root: opens the stores, then starts the roles, in order. Disposing stops in reverse: servers first,
 * then deliveries, then the stores.
 * @throws {UsageError} when something outside must be changed before it can start; the signal's reason once it is aborted
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
  let hasStarted = false;
  let isConfigPushed = () => false;
  registerAppMetrics(metrics.registry, {
    parts: () =>
      supervisor
        .status()
        .map(({ name, state, restarts }) => ({ name, up: state === "running", restarts })),
    lags: lagWatch.read,
    isConfigPushed: () => isConfigPushed(),
  });
  const ops = await startOpsServer({
    ...config.ops,
    maxConnections: connectionLimit("ops"),
    metrics: () => metrics.render(),
    readiness: async () => {
      const parts = supervisor.status();
      return { ready: hasStarted && parts.every((part) => part.state === "running"), parts };
    },
  });
  await supervisor.add(opened("ops", ops));
  const dataDir = await openDataDir(config);
  if (dataDir.mode === "serve") await supervisor.add(opened("data-dir", dataDir.claim));

  warnOfSettings(config, dataDir.mode, options.logger);

  const core = await openCore({
    ...options,
    config,
    supervisor,
    dataDir,
    registry: metrics.registry,
    watchLag: lagWatch.watch,
    watchFeed: (listening) => void (isConfigPushed = listening),
  });
  const roles = new Set(config.roles);
  options.signal?.throwIfAborted();
  if (roles.has("delivery")) await runDelivery(core);
  options.signal?.throwIfAborted();
  const ingest = roles.has("ingest") ? await runIngest(core) : null;
  const api = roles.has("api") ? await runApi(core, options.apiRequestsPerSecond) : null;
  options.signal?.throwIfAborted();
  await options.beforeReady?.(core.configStore);
  options.signal?.throwIfAborted();
  hasStarted = true;
  return {
    apiPort: api?.port ?? null,
    ingestPort: ingest?.port ?? null,
    opsPort: ops.port,
    publicIngestUrl: core.publicIngestUrl,
    configStore: core.configStore,
    parts: () => supervisor.status(),
    allRunning: () => supervisor.allRunning(),
    stopping: () => supervisor.stopping(),
    [Symbol.asyncDispose]: () => supervisor[Symbol.asyncDispose](),
  };
}

/** Reports ports in use before the stores open, and settles port 0 (tests, the demo) before anything needs the public URL. */
async function settlePorts(config: RelayConfig): Promise<RelayConfig> {
  const { api, ingest, roles } = config;
  if (roles.includes("api")) await reservePort(api.host, api.port, "RELAY_API_PORT");
  if (!roles.includes("ingest") || ingest.sharePort) return config;
  return {
    ...config,
    ingest: { ...ingest, port: await reservePort(ingest.host, ingest.port, "RELAY_INGEST_PORT") },
  };
}
