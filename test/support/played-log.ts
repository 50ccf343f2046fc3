import { openKafkaLog } from "../../src/adapters/kafka/kafka-log.ts";
import type { KafkaLogOptions } from "../../src/adapters/kafka/kafka-options.ts";
import type { Log } from "../../src/domain/log.ts";
import type { PlayedCluster } from "./played-cluster.ts";
import { silentLogger } from "./silent-logger.ts";

/** Opens a log on the played cluster, with as many partitions as that has. */
export function openPlayedLog(
  cluster: PlayedCluster,
  options: Partial<KafkaLogOptions> = {},
): Promise<Log> {
  return openKafkaLog({
    connection: { brokers: cluster.addresses, clientId: "t" },
    topicPrefix: "",
    partitions: cluster.partitionCount,
    replicationFactor: null,
    maxRecordBytes: 1_000,
    retentionMs: 1_000,
    logger: silentLogger,
    ...options,
  });
}
