import { isIP, isIPv4 } from "node:net";
import { availableParallelism } from "node:os";
import { z } from "zod";
import { UsageError } from "../domain/errors.ts";
import type { KafkaConfig, RelayConfig } from "./config.ts";
import { givenVariables } from "./given-variables.ts";
import { isPadded } from "./value-types.ts";
import { VARIABLES } from "./variables.ts";

const schema = z.object(VARIABLES);
type Values = z.output<typeof schema>;

const PADDED =
  "must not begin or end with white space, such as the line break at the end of a file";

/**
 * Checks the environment as a whole.
 * @throws {UsageError} one line that names the first wrong variable and what to set
 */
export function loadConfig(env: Readonly<Record<string, string | undefined>>): RelayConfig {
  const given = givenVariables(env);
  const parsed = schema.safeParse(given);
  if (!parsed.success) {
    const issue = parsed.error.issues[0];
    const name = String(issue?.path[0] ?? "environment");
    const problem = isOnlyPadded(given, name) ? PADDED : (issue?.message ?? "is wrong");
    throw new UsageError(`${name} ${problem}`);
  }
  return { ...toConfig(parsed.data), unused: unusedNames(given) };
}

/** Returns whether a refused value is right but for white space around it, which cannot be seen, and no description of the right form names. */
function isOnlyPadded(given: Readonly<Record<string, string>>, name: string): boolean {
  const value = given[name] ?? "";
  const { success } = schema.partial().safeParse({ [name]: value.trim() });
  return isPadded(value) && success;
}

function unusedNames(given: Readonly<Record<string, string>>): string[] {
  const names: string[] = [];
  if (given["KAFKA_BROKERS"] === undefined)
    names.push("RELAY_TOPIC_PREFIX", "RELAY_REPLICATION_FACTOR");
  if (given["DATABASE_URL"] !== undefined && given["RELAY_BOOTSTRAP_API_KEY"] === undefined)
    names.push("RELAY_BOOTSTRAP_ORG");
  return names.filter((name) => given[name] !== undefined);
}

function toConfig(values: Values): Omit<RelayConfig, "unused"> {
  const embeddedStores = values.DATABASE_URL === undefined;
  if (!embeddedStores && values.RELAY_ENCRYPTION_KEY === undefined) {
    throw new UsageError(
      "set RELAY_ENCRYPTION_KEY (32 bytes base64, the same on every node; make one with: openssl rand -base64 32): it encrypts the secrets in DATABASE_URL",
    );
  }
  if (values.CLICKHOUSE_CLUSTER !== undefined && values.CLICKHOUSE_URL === undefined) {
    throw new UsageError(
      "CLICKHOUSE_CLUSTER is set without CLICKHOUSE_URL: set the address of one of its nodes, or unset it to use the embedded store",
    );
  }
  refuseSamePort(values);
  return {
    roles: [...new Set(values.RELAY_ROLES)],
    dataDir: values.RELAY_DATA_DIR,
    databaseUrl: values.DATABASE_URL ?? null,
    clickhouseUrl: values.CLICKHOUSE_URL ?? null,
    clickhouseCluster: values.CLICKHOUSE_CLUSTER ?? null,
    kafka: toKafka(values),
    partitions: values.RELAY_PARTITIONS,
    api: { host: values.RELAY_API_HOST, port: values.RELAY_API_PORT },
    ingest: {
      host: values.RELAY_INGEST_HOST,
      port: values.RELAY_INGEST_PORT,
      sharePort: values.RELAY_INGEST_SHARE_PORT,
    },
    ops: { host: values.RELAY_OPS_HOST, port: values.RELAY_OPS_PORT },
    publicIngestUrl: trimSlash(values.RELAY_PUBLIC_INGEST_URL),
    testIngestUrl: trimSlash(values.RELAY_TEST_INGEST_URL),
    encryptionKey: values.RELAY_ENCRYPTION_KEY ?? null,
    bootstrap: { apiKey: values.RELAY_BOOTSTRAP_API_KEY ?? null, org: values.RELAY_BOOTSTRAP_ORG },
    allowPrivateReceivers: values.RELAY_ALLOW_PRIVATE_RECEIVERS,
    maxPayloadBytes: values.RELAY_MAX_PAYLOAD_BYTES,
    ingestRateLimit: values.RELAY_INGEST_RATE_LIMIT,
    configTtlMs: values.RELAY_CONFIG_TTL_MS,
    retryBaseMs: values.RELAY_RETRY_BASE_MS,
    deliveryTimeoutMs: values.RELAY_DELIVERY_TIMEOUT_MS,
    deliveryConcurrency: values.RELAY_DELIVERY_CONCURRENCY,
    trustedProxies: values.RELAY_TRUSTED_PROXIES,
    retentionDays: values.RELAY_RETENTION_DAYS,
    rotationOverlapMs: values.RELAY_ROTATION_OVERLAP_MS,
    verifyThreads: values.RELAY_VERIFY_THREADS ?? Math.max(1, availableParallelism() - 1),
    logLevel: values.LOG_LEVEL,
  };
}

/**
 * Refuses two servers of this process on one port: the system's error would send the user looking for another process, in vain.
 */
function refuseSamePort(values: Values): void {
  const { RELAY_ROLES: roles, RELAY_INGEST_SHARE_PORT: isShared, RELAY_INGEST_PORT: port } = values;
  if (roles.includes("ingest") && isShared && port === 0)
    throw new UsageError(
      "RELAY_INGEST_SHARE_PORT is true and RELAY_INGEST_PORT is 0, any free port: set the port that is to be shared",
    );
  const names = ["API", "INGEST", "OPS"] as const;
  const servers = names
    .filter((name) => name === "OPS" || roles.includes(name === "API" ? "api" : "ingest"))
    .map((name) => ({
      variable: `RELAY_${name}_PORT`,
      port: values[`RELAY_${name}_PORT`],
      host: values[`RELAY_${name}_HOST`],
    }));
  for (const [index, later] of servers.entries()) {
    const same = servers
      .slice(0, index)
      .find(({ port: taken, host }) => taken === later.port && doHostsMeet(host, later.host));
    if (same !== undefined && later.port !== 0)
      throw new UsageError(
        `${same.variable} and ${later.variable} are both ${later.port}: set one of them to another port`,
      );
  }
}

/** Returns whether two hosts share an address, as far as can be told without asking the system. */
function doHostsMeet(one: string, other: string): boolean {
  return one === other || holdsAddress(one, other) || holdsAddress(other, one);
}

function holdsAddress(all: string, host: string): boolean {
  return (all === "::" && isIP(host) !== 0) || (all === "0.0.0.0" && isIPv4(host));
}

function toKafka(values: Values): KafkaConfig | null {
  const {
    KAFKA_SASL_MECHANISM: mechanism,
    KAFKA_SASL_USERNAME: username,
    KAFKA_SASL_PASSWORD: password,
  } = values;
  if (mechanism === undefined && (username !== undefined || password !== undefined))
    throw new UsageError(
      `${username === undefined ? "KAFKA_SASL_PASSWORD" : "KAFKA_SASL_USERNAME"} is set without KAFKA_SASL_MECHANISM: set it to plain, scram-sha-256 or scram-sha-512, or unset user name and password`,
    );
  if (values.KAFKA_BROKERS === undefined) {
    if (mechanism !== undefined || values.KAFKA_SSL)
      throw new UsageError(
        `${mechanism === undefined ? "KAFKA_SSL" : "KAFKA_SASL_MECHANISM"} is set without KAFKA_BROKERS: set the brokers, or unset it to use the embedded log`,
      );
    return null;
  }
  if (mechanism !== undefined && (username === undefined || password === undefined)) {
    throw new UsageError("KAFKA_SASL_MECHANISM needs KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD");
  }
  return {
    brokers: values.KAFKA_BROKERS,
    sasl:
      mechanism === undefined
        ? null
        : { mechanism, username: username ?? "", password: password ?? "" },
    ssl: values.KAFKA_SSL,
    topicPrefix: values.RELAY_TOPIC_PREFIX,
    replicationFactor: values.RELAY_REPLICATION_FACTOR ?? null,
  };
}

function trimSlash(url: string | undefined): string | null {
  return url === undefined ? null : url.replace(/\/+$/, "");
}
