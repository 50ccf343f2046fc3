import type { ConsumerConfig } from "kafkajs";

const FETCH_WAIT_MS = 100;
const FETCH_PARTITION_BYTES = 512 * 1024;

/** Returns how a member of a group fetches and keeps its session. */
export function consumerConfig(group: {
  readonly groupId: string;
  readonly sessionTimeoutMs: number;
  readonly metadataMaxAgeMs: number;
}): ConsumerConfig {
  return {
    groupId: group.groupId,
    sessionTimeout: group.sessionTimeoutMs,
    heartbeatInterval: Math.min(1_000, Math.floor(group.sessionTimeoutMs / 5)),
    metadataMaxAge: group.metadataMaxAgeMs,
    maxWaitTimeInMs: FETCH_WAIT_MS,
    minBytes: 1,
    maxBytesPerPartition: FETCH_PARTITION_BYTES,
    allowAutoTopicCreation: false,
    retry: {
      initialRetryTime: 200,
      maxRetryTime: 2_000,
      retries: 8,
      // The client's own restart cannot be called off: it would outlive the consumer and go on forever.
      restartOnFailure: () => Promise.resolve(false),
    },
  };
}
