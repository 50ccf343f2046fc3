import { z } from "zod";
import { API_KEY_FORM, looksLikeApiKey } from "../domain/api-key.ts";
import { parseDatabaseUrl, readsTlsParameters } from "./database-url.ts";
import {
  base64Key,
  baseUrl,
  booleanText,
  brokerList,
  clickHouseUrl,
  cidrList,
  credential,
  directory,
  hostName,
  integerText,
  isPadded,
  oneOf,
  organizationName,
  roleList,
} from "./value-types.ts";

/** No configuration has ever allowed a larger payload, so no log holds one. */
export const LARGEST_PAYLOAD_BYTES = 104_857_600;

/** Every environment variable that the relay reads, with its check. Defaults live in `load-config.ts` only where they depend on others. */
export const VARIABLES = {
  RELAY_ROLES: roleList.default(["api", "ingest", "delivery"]),
  RELAY_DATA_DIR: directory.default(".relay"),
  DATABASE_URL: z
    .string()
    .refine(
      (text) => !isPadded(text) && parseDatabaseUrl(text) !== null,
      "must be postgresql://user:password@host:5432/database with one host, user and password percent-encoded (/ is %2F, @ is %40, # is %23, ? is %3F)",
    )
    .refine(
      (text) => readsTlsParameters(text),
      "has a TLS parameter that is not read, is empty or has a wrong value: set sslmode=verify-full (or disable), and sslrootcert, sslcert and sslkey to files where needed",
    )
    .optional(),
  CLICKHOUSE_URL: clickHouseUrl.optional(),
  CLICKHOUSE_CLUSTER: z
    .string()
    .regex(/^[A-Za-z0-9_-]{1,100}$/, "may hold letters, digits, _ -")
    .optional(),
  KAFKA_BROKERS: brokerList.optional(),
  KAFKA_SASL_MECHANISM: oneOf(["plain", "scram-sha-256", "scram-sha-512"]).optional(),
  KAFKA_SASL_USERNAME: credential.optional(),
  KAFKA_SASL_PASSWORD: credential.optional(),
  KAFKA_SSL: booleanText.default(false),
  RELAY_TOPIC_PREFIX: z
    .string()
    .regex(/^[A-Za-z0-9._-]{0,100}$/, "may hold letters, digits, . _ -")
    .default("relay."),
  RELAY_PARTITIONS: integerText(1, 4096).default(48),
  RELAY_REPLICATION_FACTOR: integerText(1, 9).optional(),
  RELAY_API_PORT: integerText(0, 65_535).default(8080),
  RELAY_INGEST_PORT: integerText(0, 65_535).default(8081),
  RELAY_OPS_PORT: integerText(0, 65_535).default(9090),
  RELAY_API_HOST: hostName.default("0.0.0.0"),
  RELAY_INGEST_HOST: hostName.default("0.0.0.0"),
  RELAY_OPS_HOST: hostName.default("127.0.0.1"),
  RELAY_INGEST_SHARE_PORT: booleanText.default(false),
  RELAY_PUBLIC_INGEST_URL: baseUrl.optional(),
  RELAY_TEST_INGEST_URL: baseUrl.optional(),
  RELAY_ENCRYPTION_KEY: base64Key.optional(),
  RELAY_BOOTSTRAP_API_KEY: z.string().refine(looksLikeApiKey, `must be ${API_KEY_FORM}`).optional(),
  RELAY_BOOTSTRAP_ORG: organizationName.default("default"),
  RELAY_ALLOW_PRIVATE_RECEIVERS: cidrList.default([]),
  RELAY_MAX_PAYLOAD_BYTES: integerText(1, LARGEST_PAYLOAD_BYTES).default(10_485_760),
  RELAY_INGEST_RATE_LIMIT: integerText(0, 10_000_000).default(0),
  RELAY_CONFIG_TTL_MS: integerText(100, 55_000).default(30_000),
  RELAY_RETRY_BASE_MS: integerText(1, 21_600_000).default(30_000),
  RELAY_DELIVERY_TIMEOUT_MS: integerText(100, 600_000).default(15_000),
  RELAY_DELIVERY_CONCURRENCY: integerText(1, 4096).default(64),
  RELAY_TRUSTED_PROXIES: cidrList.default([]),
  RELAY_RETENTION_DAYS: integerText(1, 3650).default(30),
  RELAY_ROTATION_OVERLAP_MS: integerText(0, 31_536_000_000).default(86_400_000),
  RELAY_VERIFY_THREADS: integerText(1, 256).optional(),
  LOG_LEVEL: oneOf(["trace", "debug", "info", "warn", "error", "fatal", "silent"]).default("info"),
} as const;

export type VariableName = keyof typeof VARIABLES;
export const VARIABLE_NAMES = Object.keys(VARIABLES) as readonly VariableName[];
