import { startVerifyPool } from "../adapters/piscina/verify-pool.ts";
import { makeIngestMetrics } from "../adapters/prometheus/ingest-metrics.ts";
import { makeVerifyMetrics } from "../adapters/prometheus/verify-metrics.ts";
import { startIngestServer } from "../adapters/uws/server.ts";
import { RelayError } from "../domain/errors.ts";
import { makeIdGenerator } from "../domain/ids.ts";
import { INGEST_DEFAULTS } from "../pipeline/ingest/ports.ts";
import { makeIngest } from "../pipeline/ingest/ingest.ts";
import { makeVerifier } from "../pipeline/verify/verifier.ts";
import { connectionLimit } from "./connection-limit.ts";
import type { Core } from "./core.ts";
import { openJwks } from "./outbound.ts";
import { opened, type Part } from "./supervisor.ts";

/** How long a stopping ingest waits for requests in flight to be answered. */
const STOP_GRACE_MS = 5_000;

/** Lost batches are logged at most this often: webhooks arrive by the thousand a second, and any of them may be the cause. */
const LOG_AGAIN_MS = 60_000;

/** Runs the ingest role: verifier pool, ingest stage and its HTTP server, as supervised parts. @returns its port */
export async function runIngest(core: Core): Promise<{ readonly port: number }> {
  const { config, clock, logger, supervisor, registry } = core;
  const pool = await startVerifyPool({
    threads: config.verifyThreads,
    onWorkerError: (error) => logger.error({ err: error }, "verify.worker_lost"),
  });
  await supervisor.add(opened("verify-pool", pool));
  const verifier = makeVerifier({
    pool,
    jwks: openJwks(core.sender, clock),
    metrics: makeVerifyMetrics(registry),
    clock,
    onError: atMostEvery(LOG_AGAIN_MS, clock, (error) =>
      logger.error({ err: error }, "verify.batch_lost"),
    ),
  });
  await supervisor.add(opened("verifier", verifier));

  const newId = makeIdGenerator();
  const metrics = makeIngestMetrics(registry, () => ingest.inFlight);
  const ingest = makeIngest(
    {
      endpointByToken: (token) => core.cache.endpointByToken(token),
      verify: verifier.verify,
      isInline: verifier.isInline,
      append: (records) => core.log.append(records),
      newEventId: (timeMs) => newId("event", timeMs),
      clock,
      defer: (callback) => void setImmediate(callback),
      metrics,
      logger,
    },
    {
      publicBaseUrl: core.publicIngestUrl,
      maxPayloadBytes: config.maxPayloadBytes,
      rateLimitPerSecond: config.ingestRateLimit,
      trustedProxies: config.trustedProxies,
      ...INGEST_DEFAULTS,
    },
  );
  let { port } = config.ingest;
  const isConfigured = (): boolean =>
    supervisor.status().some(({ name, state }) => name === "configuration" && state === "running");
  const server: Part = {
    name: "ingest",
    start: async () => {
      // The system spreads connections over all listeners, including one that could only answer 503.
      if (config.ingest.sharePort && !isConfigured())
        throw new RelayError(
          "unavailable",
          "listens on the shared port once the configuration has been read",
        );
      const listening = await startIngestServer({
        ...config.ingest,
        maxConnections: connectionLimit("ingest"),
        handle: (head, reply) => ingest.handle(head, reply),
        metrics,
        logger,
      });
      ({ port } = listening);
      return { [Symbol.asyncDispose]: () => listening.stop(STOP_GRACE_MS) };
    },
  };
  await supervisor.add(server, { tolerant: config.ingest.sharePort });
  return { port };
}

function atMostEvery<T>(
  everyMs: number,
  clock: Core["clock"],
  tell: (subject: T) => void,
): (subject: T) => void {
  let toldAtMs = Number.NEGATIVE_INFINITY;
  return (subject) => {
    if (clock.monotonic() - toldAtMs < everyMs) return;
    toldAtMs = clock.monotonic();
    tell(subject);
  };
}
