import type { Topic } from "../../domain/log.ts";
import type { Logger } from "../../domain/logger.ts";

export type SaslMechanism = "plain" | "scram-sha-256" | "scram-sha-512";

/** How to reach the brokers. */
export interface KafkaConnection {
  /** `host:port` of some brokers; the rest are found through them. */
  readonly brokers: readonly string[];
  readonly clientId: string;
  readonly tls?: boolean | { readonly ca: string };
  readonly sasl?: {
    readonly mechanism: SaslMechanism;
    readonly username: string;
    readonly password: string;
  };
}

export interface KafkaLogMetrics {
  /** A group will never read so many records: retention has deleted them, or they are damaged. */
  lost(topic: Topic, records: number): void;
}

export interface KafkaLogOptions {
  readonly connection: KafkaConnection;
  readonly topicPrefix: string;
  /** Topics with fewer partitions are grown; where they have more, that number counts. */
  readonly partitions: number;
  /** Null means 3 if there are at least three brokers, else 1. */
  readonly replicationFactor: number | null;
  /** Largest record value that all topics must take, besides room for key and framing. Topics that take larger ones are left alone. */
  readonly maxRecordBytes: number;
  /** How long a held task may wait: the `held` topic keeps records longer than this. */
  readonly retentionMs: number;
  readonly logger: Logger;
  readonly metrics?: KafkaLogMetrics;
  /** A group member that is silent for this long loses its partitions. */
  readonly sessionTimeoutMs?: number;
  /** How often partition counts and leaders are looked up again. */
  readonly metadataMaxAgeMs?: number;
  /** Most bytes that may wait to be appended; beyond them, `log_full`. */
  readonly maxQueuedBytes?: number;
  /** An append is settled within this time, one way or the other. */
  readonly appendTimeoutMs?: number;
  /** Monotonic ms. */
  readonly monotonic?: () => number;
}

export const DEFAULT_SESSION_TIMEOUT_MS = 10_000;
export const DEFAULT_METADATA_MAX_AGE_MS = 30_000;
export const DEFAULT_MAX_QUEUED_BYTES = 64 * 1024 * 1024;
/** Below the 3.5 s after which ingest must have answered 503. */
export const DEFAULT_APPEND_TIMEOUT_MS = 3_000;

export function topicName(prefix: string, topic: Topic): string {
  return prefix + topic;
}
