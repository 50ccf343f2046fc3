import { writeFile } from "node:fs/promises";
import { hostname } from "node:os";
import { join } from "node:path";
import { makeKafkaLogMetrics, makeLogMetrics } from "../adapters/prometheus/log-metrics.ts";
import type { MetricsRegistry } from "../adapters/prometheus/registry.ts";
import type { KafkaConfig, RelayConfig } from "../config/config.ts";
import { LARGEST_PAYLOAD_BYTES } from "../config/variables.ts";
import type { Clock } from "../domain/clock.ts";
import type { Log } from "../domain/log.ts";
import type { Logger } from "../domain/logger.ts";
import { exists } from "../embedded/exists.ts";
import { notLoaded } from "../embedded/not-loaded.ts";
import { findSocketDirectory, makeSocketDirectory } from "../embedded/pglite/socket-directory.ts";
import type { DataDirUse } from "./open-data-dir.ts";
import { refuseSmallAddressSpace } from "./process-limits.ts";
import { retentionMsOf } from "./retention.ts";

const HOUR_MS = 3_600_000;
/** A silent group member loses its partitions after this time; its successor then waits for as long as a whole try may take. */
const KAFKA_SESSION_TIMEOUT_MS = 10_000;
/** Room for the headers of the largest event and the head of its task. */
const RECORD_OVERHEAD_BYTES = 1024 * 1024;
const MIN_PENDING_BYTES = 64 * 1024 * 1024;
/** Kept beside the log's directory, so that it is noticed when the log is gone. */
const MARK = "log.made";

export interface LogOptions {
  readonly config: RelayConfig;
  readonly dataDirMode: DataDirUse["mode"];
  readonly clock: Clock;
  readonly logger: Logger;
  readonly registry: MetricsRegistry["registry"];
}

/** Opens the log of this process: Kafka where brokers are given, else the embedded one, served or attached to. */
export async function openLog(options: LogOptions): Promise<Log> {
  if (options.config.kafka !== null) return connect(options, options.config.kafka);
  return options.dataDirMode === "attach" ? attach(options) : serve(options);
}

async function connect(
  { config, logger, clock, registry }: LogOptions,
  kafka: KafkaConfig,
): Promise<Log> {
  const { openKafkaLog } = await import("../adapters/kafka/kafka-log.ts");
  return openKafkaLog({
    connection: {
      brokers: kafka.brokers,
      clientId: `webhook-relay-${hostname()}-${process.pid}`,
      tls: kafka.ssl,
      ...(kafka.sasl === null ? {} : { sasl: kafka.sasl }),
    },
    topicPrefix: kafka.topicPrefix,
    partitions: config.partitions,
    replicationFactor: kafka.replicationFactor,
    maxRecordBytes: largestNewRecordBytes(config),
    maxQueuedBytes: pendingBytesOf(config),
    retentionMs: retentionMsOf(config),
    sessionTimeoutMs: KAFKA_SESSION_TIMEOUT_MS,
    logger,
    metrics: makeKafkaLogMetrics(registry),
    monotonic: () => clock.monotonic(),
  });
}

function largestNewRecordBytes({ maxPayloadBytes }: RelayConfig): number {
  return maxPayloadBytes + RECORD_OVERHEAD_BYTES;
}

/** Returns the most bytes of appends under way: room for one of the largest beside others. */
function pendingBytesOf(config: RelayConfig): number {
  return Math.max(MIN_PENDING_BYTES, 2 * largestNewRecordBytes(config));
}

/** Kept beside the socket of the embedded PostgreSQL, in a directory chosen for the length limit of a unix socket's path. */
const SOCKET_NAME = "log.sock";

async function attach({ config, clock }: LogOptions): Promise<Log> {
  const { attachLog } = await import("../adapters/lmdb/socket/attach-log.ts");
  return attachLog({
    socketPath: join(await findSocketDirectory(config.dataDir), SOCKET_NAME),
    clock,
    maxPendingBytes: pendingBytesOf(config),
  });
}

async function serve({ config, clock, logger, registry }: LogOptions): Promise<Log> {
  refuseSmallAddressSpace();
  const [{ openLmdbLog }, { serveLogSocket }] = await loadEmbeddedLog();
  const dir = join(config.dataDir, "log");
  const mark = join(config.dataDir, MARK);
  if ((await exists(mark)) && !(await exists(join(dir, "log.mdb"))))
    logger.warn(
      { dir, lost: "pending retries, held deliveries and what was not recorded yet" },
      "log.embedded.missing",
    );
  const log = await openLmdbLog({
    dir,
    partitions: config.partitions,
    retentionMs: HOUR_MS,
    clock,
    logger,
    metrics: makeLogMetrics(registry),
    // Events accepted under an earlier configuration must still get through: only the ingest applies today's limit.
    maxRecordBytes: LARGEST_PAYLOAD_BYTES + RECORD_OVERHEAD_BYTES,
    maxPendingBytes: pendingBytesOf(config),
  });
  // Not essential: without it, a log that is gone would be made anew without a warning.
  await writeFile(mark, "", { flag: "a", mode: 0o600 }).catch(() => {});
  const socket = await makeSocketDirectory(config.dataDir)
    .then((directory) => serveLogSocket(log, join(directory, SOCKET_NAME), logger))
    .catch(async (error: unknown) => {
      await log[Symbol.asyncDispose]();
      throw error;
    });
  return {
    partitions: log.partitions,
    writesWhole: log.writesWhole,
    learnPartitions: () => log.learnPartitions(),
    append: (records) => log.append(records),
    consume: (consumer) => log.consume(consumer),
    [Symbol.asyncDispose]: async () => {
      await socket[Symbol.asyncDispose]();
      await log[Symbol.asyncDispose]();
    },
  };
}

async function loadEmbeddedLog() {
  try {
    return await Promise.all([
      import("../adapters/lmdb/open-lmdb-log.ts"),
      import("../adapters/lmdb/socket/serve-log-socket.ts"),
    ]);
  } catch (error) {
    throw notLoaded("log", "KAFKA_BROKERS", error);
  }
}
