import type { Role } from "./value-types.ts";

/** The configuration, read once at start and then only passed on. Durations in ms, sizes in bytes. */
export interface RelayConfig {
  readonly roles: readonly Role[];
  readonly dataDir: string;
  /** Null for the embedded store. */
  readonly databaseUrl: string | null;
  readonly clickhouseUrl: string | null;
  /** Name of a cluster in ClickHouse's `remote_servers`; null for one node with plain tables. */
  readonly clickhouseCluster: string | null;
  readonly kafka: KafkaConfig | null;
  /** Names of variables that are set but have no effect, given the others. */
  readonly unused: readonly string[];
  readonly partitions: number;
  readonly api: Listener;
  readonly ingest: Listener & { readonly sharePort: boolean };
  readonly ops: Listener;
  readonly publicIngestUrl: string | null;
  readonly testIngestUrl: string | null;
  /** 32 bytes in base64; null for a key that is kept in the data directory. */
  readonly encryptionKey: string | null;
  readonly bootstrap: { readonly apiKey: string | null; readonly org: string };
  readonly allowPrivateReceivers: readonly string[];
  readonly maxPayloadBytes: number;
  /** Requests per second per endpoint per node; 0 = off. */
  readonly ingestRateLimit: number;
  readonly configTtlMs: number;
  readonly retryBaseMs: number;
  readonly deliveryTimeoutMs: number;
  readonly deliveryConcurrency: number;
  readonly trustedProxies: readonly string[];
  readonly retentionDays: number;
  readonly rotationOverlapMs: number;
  readonly verifyThreads: number;
  readonly logLevel: "trace" | "debug" | "info" | "warn" | "error" | "fatal" | "silent";
}

interface Listener {
  readonly host: string;
  readonly port: number;
}

export interface KafkaConfig {
  readonly brokers: readonly string[];
  readonly sasl: {
    readonly mechanism: "plain" | "scram-sha-256" | "scram-sha-512";
    readonly username: string;
    readonly password: string;
  } | null;
  readonly ssl: boolean;
  readonly topicPrefix: string;
  /** Null means 3 where there are at least 3 brokers, else 1. */
  readonly replicationFactor: number | null;
}
