import { randomBytes, randomUUID } from "node:crypto";
import { makeEventStoreReader } from "../adapters/clickhouse/queries.ts";
import { makeConfigStore } from "../adapters/postgres/config-store.ts";
import { makeApiKeyStore } from "../adapters/postgres/key-store.ts";
import { makeApiMetrics } from "../adapters/prometheus/app-metrics.ts";
import { makeApi } from "../api/api.ts";
import { makeLimitRequests, REQUESTS_PER_SECOND } from "../api/limit-requests.ts";
import { OPERATIONS } from "../api/operations.ts";
import { startApiServer } from "../api/start-api-server.ts";
import { RELAY_VERSION } from "../config/version.ts";
import { makeIdGenerator } from "../domain/ids.ts";
import { makeManagement } from "../management/make-management.ts";
import { makeEventQueries } from "../pipeline/query/make-event-queries.ts";
import { connectionLimit } from "./connection-limit.ts";
import { requireEventStore, type Core } from "./core.ts";
import { postTest } from "./post-test.ts";
import { retentionMsOf } from "./retention.ts";
import { opened } from "./supervisor.ts";

/** Runs the api role: use cases over the stores and the log, behind HTTP. @returns its port */
export async function runApi(
  core: Core,
  requestsPerSecond = REQUESTS_PER_SECOND,
): Promise<{ readonly port: number }> {
  const { config, clock, logger, supervisor } = core;
  const { reads, lookups, maxReads } = requireEventStore(core);
  const queries = makeEventQueries({
    store: makeEventStoreReader(reads, { maxAtOnce: maxReads }, clock, lookups.ask),
    clock,
    destinationsOf: (endpointId) => core.cache.destinationsOf(endpointId),
    retentionMs: retentionMsOf(config),
  });
  const management = makeManagement(
    {
      store: makeConfigStore(core.configStore.database),
      keys: makeApiKeyStore(core.configStore.database),
      box: core.box,
      tokens: core.tokens,
      log: core.log,
      events: queries,
      checkReceiver: (url) => core.sender.checkReceiver(url),
      postTest,
      now: () => clock.now(),
      clock,
      random: Math.random,
      randomBytes,
      newId: makeIdGenerator(),
    },
    {
      publicIngestUrl: core.publicIngestUrl,
      testIngestUrl: config.testIngestUrl ?? core.publicIngestUrl,
      rotationOverlapMs: config.rotationOverlapMs,
    },
  );
  const app = makeApi({
    management,
    queries,
    logger,
    newRequestId: randomUUID,
    now: () => clock.now(),
    monotonicMs: () => clock.monotonic(),
    limitRequests: makeLimitRequests({
      perSecond: requestsPerSecond,
      nowMs: () => clock.monotonic(),
    }),
    version: RELAY_VERSION,
    metrics: makeApiMetrics(
      core.registry,
      OPERATIONS.map(({ operationId }) => operationId),
    ),
  });
  const server = await startApiServer({
    app,
    logger,
    maxConnections: connectionLimit("api"),
    ...config.api,
  });
  await supervisor.add(opened("api", server));
  return { port: server.port };
}
