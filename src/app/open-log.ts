import { join } from "node:path";
import { openLmdbLog } from "../adapters/lmdb/open-lmdb-log.ts";
import { makeLogMetrics } from "../adapters/prometheus/log-metrics.ts";
import type { MetricsRegistry } from "../adapters/prometheus/registry.ts";
import type { RelayConfig } from "../config/config.ts";
import type { Clock } from "../domain/clock.ts";
import type { Log } from "../domain/log.ts";
import type { Logger } from "../domain/logger.ts";

const HOUR_MS = 3_600_000;

export interface LogOptions {
  readonly config: RelayConfig;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly registry: MetricsRegistry["registry"];
}

/** The log of this process: Kafka where brokers are given, else the embedded one in the data directory. */
export async function openLog({ config, clock, logger, registry }: LogOptions): Promise<Log> {
  return openLmdbLog({
    dir: join(config.dataDir, "log"),
    partitions: config.partitions,
    retentionMs: HOUR_MS,
    clock,
    logger,
    metrics: makeLogMetrics(registry),
    maxRecordBytes: config.maxPayloadBytes + 4 * 1024 * 1024,
  });
}
