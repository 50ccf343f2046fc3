import { readFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { describe, expect, it } from "vitest";
import { loadConfig } from "../../src/config/load-config.ts";
import { summarizeConfig } from "../../src/config/summarize-config.ts";
import { RELAY_VERSION } from "../../src/config/version.ts";
import { UsageError } from "../../src/domain/errors.ts";

const KEY = Buffer.alloc(32, 7).toString("base64");
const NO_BROKERS =
  "KAFKA_BROKERS must be host:port,host:port, with names in place of IPv6 addresses";
const NO_TLS_PARAMETER =
  "DATABASE_URL has a TLS parameter that is not read, is empty or has a wrong value: set sslmode=verify-full (or disable), and sslrootcert, sslcert and sslkey to files where needed";

function refusal(env: Record<string, string>): string {
  try {
    loadConfig(env);
  } catch (error) {
    expect(error).toBeInstanceOf(UsageError);
    return (error as Error).message;
  }
  throw new Error("expected a refusal");
}

describe("configuration", () => {
  it("has the contract's defaults when nothing is set", () => {
    const config = loadConfig({});
    expect(config).toMatchObject({
      roles: ["api", "ingest", "delivery"],
      dataDir: ".relay",
      databaseUrl: null,
      kafka: null,
      partitions: 48,
      api: { host: "0.0.0.0", port: 8080 },
      ingest: { host: "0.0.0.0", port: 8081, sharePort: false },
      ops: { host: "127.0.0.1", port: 9090 },
      maxPayloadBytes: 10_485_760,
      ingestRateLimit: 0,
      configTtlMs: 30_000,
      retryBaseMs: 30_000,
      deliveryTimeoutMs: 15_000,
      deliveryConcurrency: 64,
      retentionDays: 30,
      rotationOverlapMs: 86_400_000,
      publicIngestUrl: null,
      testIngestUrl: null,
      encryptionKey: null,
      bootstrap: { apiKey: null, org: "default" },
      allowPrivateReceivers: [],
      trustedProxies: [],
      logLevel: "info",
    });
    expect(config.verifyThreads).toBe(Math.max(1, availableParallelism() - 1));
  });

  it("passes on what is set for Kafka, with the contract's defaults for what is not", () => {
    expect(loadConfig({ KAFKA_BROKERS: "a:9092, b:9093" }).kafka).toEqual({
      brokers: ["a:9092", "b:9093"],
      sasl: null,
      ssl: false,
      topicPrefix: "relay.",
      replicationFactor: null,
    });
    const secured = loadConfig({
      KAFKA_BROKERS: "a:9092",
      KAFKA_SSL: "true",
      KAFKA_SASL_MECHANISM: "scram-sha-512",
      KAFKA_SASL_USERNAME: "user",
      KAFKA_SASL_PASSWORD: "password",
      RELAY_TOPIC_PREFIX: "",
      RELAY_REPLICATION_FACTOR: "9",
    });
    expect(secured.kafka).toEqual({
      brokers: ["a:9092"],
      sasl: { mechanism: "scram-sha-512", username: "user", password: "password" },
      ssl: true,
      topicPrefix: "relay.",
      replicationFactor: 9,
    });
  });

  it.each([
    [{ RELAY_ROLE: "api" }, "unknown variable RELAY_ROLE: did you mean RELAY_ROLES?"],
    [
      { RELAY_INGES_PORT: "1" },
      "unknown variable RELAY_INGES_PORT: did you mean RELAY_INGEST_PORT?",
    ],
    [
      { RELAY_ROLES: "api,queue" },
      "RELAY_ROLES must be a comma-separated list of api, ingest, delivery",
    ],
    [
      { RELAY_DATA_DIR: "/var/lib\nrelay" },
      "RELAY_DATA_DIR must not have line breaks or other control characters",
    ],
    // Regression: what a shell takes away became a directory named ~ or " beside the program.
    ...["~/relay", "~", '"/var/lib/relay"', "'relay'"].map((dir): [object, string] => [
      { RELAY_DATA_DIR: dir },
      "RELAY_DATA_DIR must be written out, without ~ and quotes: no shell takes them away in a file of variables",
    ]),
    // Regression: such a database was looked for under a name that ends in a blank, or its host was not found.
    ...[
      { RELAY_DATA_DIR: "/var/lib/relay\n" },
      { RELAY_DATA_DIR: " " },
      { DATABASE_URL: "postgresql://h/d " },
      { DATABASE_URL: "postgresql://h/d\n" },
      // Regression: these were said to lack the form that they have.
      { CLICKHOUSE_URL: "http://h:8123/d\r\n" },
      { RELAY_PUBLIC_INGEST_URL: " https://relay.example" },
      { RELAY_ENCRYPTION_KEY: `${KEY}\n` },
      { RELAY_BOOTSTRAP_API_KEY: "rk_abcdefgh_0123456789abcdef\n" },
      { RELAY_API_PORT: "8080\n" },
      { LOG_LEVEL: "info " },
      // Regression: this made another organization than the one that looks the same.
      { RELAY_BOOTSTRAP_ORG: "acme " },
      // Regression: these were used with their line break, and refused by the broker.
      { KAFKA_SASL_USERNAME: "user\n" },
      { KAFKA_SASL_PASSWORD: "password\n" },
    ].map((env): [object, string] => [
      env,
      `${Object.keys(env)[0]} must not begin or end with white space, such as the line break at the end of a file`,
    ]),
    // What is wrong besides is told first, since items of a list may be padded.
    [
      { RELAY_ROLES: "api, queue\n" },
      "RELAY_ROLES must be a comma-separated list of api, ingest, delivery",
    ],
    [{ RELAY_API_PORT: "http" }, "RELAY_API_PORT must be a whole number from 0 to 65535"],
    [
      { RELAY_CONFIG_TTL_MS: "60000" },
      "RELAY_CONFIG_TTL_MS must be a whole number from 100 to 55000",
    ],
    [{ RELAY_INGEST_SHARE_PORT: "yes" }, "RELAY_INGEST_SHARE_PORT must be true or false"],
    [
      { RELAY_ALLOW_PRIVATE_RECEIVERS: "localhost" },
      "RELAY_ALLOW_PRIVATE_RECEIVERS must be CIDRs such as 127.0.0.0/8,::1/128",
    ],
    // Regression: whatever was nearest was suggested, however far.
    ...["RELAY_FOO", "RELAY_A", "RELAY_WORKERS", "RELAY_"].map((name): [object, string] => [
      { [name]: "1" },
      `unknown variable ${name}: unset it (README.md lists the variables)`,
    ]),
    [
      { RELAY_ENCRYPT_KEY: "1" },
      "unknown variable RELAY_ENCRYPT_KEY: did you mean RELAY_ENCRYPTION_KEY?",
    ],
    [{ RELAY_PORT: "8080" }, "unknown variable RELAY_PORT: did you mean RELAY_API_PORT?"],
    [{ RELAY_TTL: "100" }, "unknown variable RELAY_TTL: did you mean RELAY_CONFIG_TTL_MS?"],
    // Almost what Kubernetes injects.
    ...["RELAY_A_SERVICE_HOSTNAME", "RELAY_A_PORT_80_TCPIP"].map((name): [object, string] => [
      { [name]: "1" },
      `unknown variable ${name}: unset it (README.md lists the variables)`,
    ]),
    [{ RELAY_API_PORT: "xtcp://a" }, "RELAY_API_PORT must be a whole number from 0 to 65535"],
    [{ RELAY_LOG_LEVEL: "debug" }, "unknown variable RELAY_LOG_LEVEL: did you mean LOG_LEVEL?"],
    [{ RELAY_KAFKA_SSL: "true" }, "unknown variable RELAY_KAFKA_SSL: did you mean KAFKA_SSL?"],
    [
      { LOG_LEVEL: "INFO" },
      "LOG_LEVEL must be one of trace, debug, info, warn, error, fatal, silent",
    ],
    [
      { KAFKA_BROKERS: "k:9092", KAFKA_SASL_MECHANISM: "PLAIN" },
      "KAFKA_SASL_MECHANISM must be one of plain, scram-sha-256, scram-sha-512",
    ],
    [{ KAFKA_BROKERS: "kafka" }, NO_BROKERS],
    [{ KAFKA_BROKERS: "kafka:99999" }, NO_BROKERS],
    [{ KAFKA_BROKERS: "a:9092,b:0" }, NO_BROKERS],
    [{ KAFKA_BROKERS: "[::1]:9092" }, NO_BROKERS],
    [
      { CLICKHOUSE_CLUSTER: "relay" },
      "CLICKHOUSE_CLUSTER is set without CLICKHOUSE_URL: set the address of one of its nodes, or unset it to use the embedded store",
    ],
    [
      { CLICKHOUSE_URL: "http://ch:8123/relay", CLICKHOUSE_CLUSTER: "it's" },
      "CLICKHOUSE_CLUSTER may hold letters, digits, _ -",
    ],
    [
      { CLICKHOUSE_URL: "clickhouse://x" },
      "CLICKHOUSE_URL must be http(s)://user:password@host:8123/database, user and password percent-encoded (/ is %2F, @ is %40, # is %23, ? is %3F, % is %25), without query",
    ],
    [
      { KAFKA_BROKERS: "k:9092", KAFKA_SASL_MECHANISM: "plain", KAFKA_SASL_USERNAME: "u" },
      "KAFKA_SASL_MECHANISM needs KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD",
    ],
    [
      { KAFKA_BROKERS: "k:9092", KAFKA_SASL_MECHANISM: "plain", KAFKA_SASL_PASSWORD: "p" },
      "KAFKA_SASL_MECHANISM needs KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD",
    ],
    [
      { KAFKA_BROKERS: "k:9092", KAFKA_SASL_MECHANISM: "plain" },
      "KAFKA_SASL_MECHANISM needs KAFKA_SASL_USERNAME and KAFKA_SASL_PASSWORD",
    ],
    [
      { KAFKA_BROKERS: "k:9092", KAFKA_SASL_USERNAME: "u", KAFKA_SASL_PASSWORD: "p" },
      "KAFKA_SASL_USERNAME is set without KAFKA_SASL_MECHANISM: set it to plain, scram-sha-256 or scram-sha-512, or unset user name and password",
    ],
    [
      { KAFKA_BROKERS: "k:9092", KAFKA_SASL_PASSWORD: "p" },
      "KAFKA_SASL_PASSWORD is set without KAFKA_SASL_MECHANISM: set it to plain, scram-sha-256 or scram-sha-512, or unset user name and password",
    ],
    [
      { KAFKA_SSL: "true" },
      "KAFKA_SSL is set without KAFKA_BROKERS: set the brokers, or unset it to use the embedded log",
    ],
    [
      { RELAY_BOOTSTRAP_ORG: "a\nb" },
      "RELAY_BOOTSTRAP_ORG must be 1 to 200 characters, without control characters",
    ],
    [
      { RELAY_ENCRYPTION_KEY: "short" },
      "RELAY_ENCRYPTION_KEY must be 32 bytes in base64 (make one with: openssl rand -base64 32)",
    ],
  ])("refuses %j in one line that says what to set", (env, message) => {
    expect(refusal(env as Record<string, string>)).toBe(message);
  });

  it.each([
    [{ RELAY_API_PORT: "9090" }, "RELAY_API_PORT and RELAY_OPS_PORT are both 9090"],
    [{ RELAY_INGEST_PORT: "8080" }, "RELAY_API_PORT and RELAY_INGEST_PORT are both 8080"],
    [{ RELAY_OPS_HOST: "::", RELAY_OPS_PORT: "8081" }, "RELAY_INGEST_PORT and RELAY_OPS_PORT are"],
    [{ RELAY_ROLES: "ingest", RELAY_OPS_PORT: "8081" }, "RELAY_INGEST_PORT and RELAY_OPS_PORT are"],
    [{ RELAY_ROLES: "api", RELAY_OPS_PORT: "8080" }, "RELAY_API_PORT and RELAY_OPS_PORT are"],
  ])(
    "refuses one port for two servers, %j: it was told to be in use by another",
    (env, message) => {
      expect(refusal(env as Record<string, string>)).toContain(message);
      expect(refusal(env as Record<string, string>)).toMatch(/: set one of them to another port$/);
    },
  );

  it.each([
    { RELAY_API_PORT: "9090", RELAY_API_HOST: "127.0.0.2" },
    { RELAY_API_PORT: "9090", RELAY_API_HOST: "::1" },
    { RELAY_API_PORT: "9090", RELAY_OPS_HOST: "::1" },
    { RELAY_API_PORT: "8081", RELAY_ROLES: "api" },
    { RELAY_API_PORT: "8081", RELAY_ROLES: "ingest,delivery" },
    { RELAY_API_PORT: "8081", RELAY_ROLES: "delivery" },
    { RELAY_API_PORT: "0", RELAY_INGEST_PORT: "0", RELAY_OPS_PORT: "0" },
  ])("takes %j: no address is listened on twice", (env) => {
    expect(() => loadConfig(env as Record<string, string>)).not.toThrow();
  });

  it.each([
    ["KAFKA_BROKER", "KAFKA_BROKERS"],
    ["KAFKABROKERS", "KAFKA_BROKERS"],
    ["KAFKA_SASL_USER_NAME", "KAFKA_SASL_USERNAME"],
    ["DATABASE_URI", "DATABASE_URL"],
    ["DATABSE_ULR", "DATABASE_URL"],
    ["CLICKHOUSE_URLS", "CLICKHOUSE_URL"],
  ])("refuses %s, almost %s: it meant an embedded store, in silence", (name, right) => {
    expect(refusal({ [name]: "somewhere" })).toBe(
      `unknown variable ${name}: did you mean ${right}? (where it is another program's, set ${right} to nothing)`,
    );
    expect(() => loadConfig({ [name]: "somewhere", [right]: "" })).not.toThrow();
  });

  it.each(
    "KAFKA_HOME KAFKA_OPTS KAFKA_URL KAFKA_TLS KAFKA_PORT CLICKHOUSE_USER CLICKHOUSE_DB DATABASE_SSL DATABASE PGHOST LOGLEVEL".split(
      " ",
    ),
  )("takes %s for another program's", (name) => {
    expect(() => loadConfig({ [name]: "something" })).not.toThrow();
  });

  it("names what is set without effect, given the others", () => {
    const named = ["RELAY_TOPIC_PREFIX", "RELAY_REPLICATION_FACTOR", "RELAY_BOOTSTRAP_ORG"];
    const env = Object.fromEntries(named.map((name) => [name, "1"]));
    const stores = { DATABASE_URL: "postgresql://db/relay", RELAY_ENCRYPTION_KEY: KEY };
    const key = { RELAY_BOOTSTRAP_API_KEY: "rk_abcdefgh_0123456789abcdef0123" };
    expect(loadConfig({}).unused).toEqual([]);
    expect(loadConfig(env).unused).toEqual(named.slice(0, 2));
    expect(loadConfig({ ...env, KAFKA_BROKERS: "k:9092" }).unused).toEqual([]);
    expect(loadConfig({ ...env, ...stores }).unused).toEqual(named);
    expect(loadConfig({ ...env, ...stores, ...key }).unused).toEqual(named.slice(0, 2));
  });

  it("takes the bounds of a number, a role that is named twice as one, and a base URL with slashes at its end", () => {
    const config = loadConfig({
      RELAY_MAX_PAYLOAD_BYTES: "104857600",
      RELAY_CONFIG_TTL_MS: "55000",
      RELAY_INGEST_RATE_LIMIT: "0",
      RELAY_ROLES: "api, ingest,api",
      RELAY_PUBLIC_INGEST_URL: "https://hooks.example.com/relay//",
      RELAY_TEST_INGEST_URL: "http://ingest:8081/",
    });
    expect(config).toMatchObject({
      maxPayloadBytes: 104_857_600,
      configTtlMs: 55_000,
      ingestRateLimit: 0,
      roles: ["api", "ingest"],
      publicIngestUrl: "https://hooks.example.com/relay",
      testIngestUrl: "http://ingest:8081",
    });
    expect(refusal({ RELAY_MAX_PAYLOAD_BYTES: "104857601" })).toContain("1 to 104857600");
  });

  it.each([
    ["RELAY_API_PORT", " 80"],
    ["RELAY_API_PORT", "80 "],
    ["KAFKA_BROKERS", " , "],
    ["KAFKA_BROKERS", "kafka:65536"],
    ["KAFKA_BROKERS", "kafka:9092x"],
    ["RELAY_DATA_DIR", " data"],
    ["RELAY_DATA_DIR", "da\u0007ta"],
    ["RELAY_PUBLIC_INGEST_URL", "see https://hooks.example.com"],
    ["CLICKHOUSE_URL", "see http://ch:8123"],
    ["DATABASE_URL", "see postgres://db/relay"],
    ["RELAY_ENCRYPTION_KEY", `x${KEY}`],
    ["RELAY_ENCRYPTION_KEY", `${KEY}=`],
  ])("refuses %s=%j, of which a part would be right", (name, value) => {
    expect(refusal({ [name]: value })).toMatch(new RegExp(`^${name} must `));
  });

  it.each([
    [{ RELAY_DATA_DIR: "data/of relay P" }, { dataDir: "data/of relay P" }],
    [{ RELAY_INGEST_SHARE_PORT: "false" }, { ingest: { sharePort: false } }],
    [{ KAFKA_BROKERS: "a:1,b:65535" }, { kafka: { brokers: ["a:1", "b:65535"] } }],
    [{ RELAY_TRUSTED_PROXIES: "10.0.0.0/8, ::1" }, { trustedProxies: ["10.0.0.0/8", "::1"] }],
    [{ RELAY_PUBLIC_INGEST_URL: "HTTPS://Hooks" }, { publicIngestUrl: "HTTPS://Hooks" }],
    [{ CLICKHOUSE_URL: "HTTP://CH:8123" }, { clickhouseUrl: "HTTP://CH:8123" }],
    [{ CLICKHOUSE_URL: "http://ch", CLICKHOUSE_CLUSTER: "relay" }, { clickhouseCluster: "relay" }],
    [{ RELAY_VERIFY_THREADS: "3" }, { verifyThreads: 3 }],
    [{ RELAY_ENCRYPTION_KEY: KEY }, { encryptionKey: KEY }],
    // An empty variable is not set, whatever its name is near to.
    [{ RELAY_ROLES: "", KAFKA_BROKER: "" }, { roles: ["api", "ingest", "delivery"] }],
  ])("reads %j", (env, config) => {
    expect(loadConfig(env as Record<string, string>)).toMatchObject(config);
  });

  it("refuses to share port 0, of which each process would get another: URLs had the port 0", () => {
    const shared = { RELAY_INGEST_SHARE_PORT: "true", RELAY_INGEST_PORT: "0" };
    expect(refusal(shared)).toBe(
      "RELAY_INGEST_SHARE_PORT is true and RELAY_INGEST_PORT is 0, any free port: set the port that is to be shared",
    );
    expect(() => loadConfig({ ...shared, RELAY_ROLES: "api" })).not.toThrow();
  });

  it("requires an encryption key with an external database, since every node needs the same", () => {
    expect(refusal({ DATABASE_URL: "postgresql://u:p@db/relay" })).toMatch(
      /^set RELAY_ENCRYPTION_KEY/,
    );
  });

  it("ignores what Kubernetes injects for services", () => {
    const config = loadConfig({
      RELAY_API_SERVICE_HOST: "10.0.0.1",
      RELAY_API_SERVICE_PORT: "8080",
      RELAY_API_SERVICE_PORT_HTTP: "8080",
      RELAY_API_PORT: "tcp://10.0.0.1:8080",
      RELAY_API_PORT_8080_TCP: "tcp://10.0.0.1:8080",
      RELAY_API_PORT_8080_TCP_ADDR: "10.0.0.1",
      RELAY_API_PORT_8080_TCP_PROTO: "tcp",
    });
    expect(config.api.port).toBe(8080);
  });

  it.each([
    ["CLICKHOUSE_URL", "tcp://ch:9000"],
    ["DATABASE_URL", "tcp://db:5432"],
    ["KAFKA_BROKERS", "tcp://kafka:9092"],
    ["RELAY_PUBLIC_INGEST_URL", "tcp://relay:8081"],
    ["RELAY_API_HOST", "tcp://10.0.0.1:8080"],
    ["RELAY_DATA_DIR", "tcp://10.0.0.1:8080"],
    ["RELAY_RETENTION_DAYS", "udp://10.0.0.1:8080"],
  ])("refuses %s=%s, which Kubernetes does not inject: it was dropped silently", (name, value) => {
    expect(refusal({ [name]: value })).toMatch(new RegExp(`^${name} must be `));
  });

  it.each([
    "http://u:CANARY%ss@ch:8123/relay",
    "http://u:CAN/ARY@ch:8123/relay",
    "http://u:CAN#ARY@ch:8123/relay",
    "http://u:CAN@ARY@ch:8123/relay",
    "http://ch:8123/relay?CANARY=1",
  ])("refuses a ClickHouse URL that its client would fail on: %s", (url) => {
    const message = refusal({ CLICKHOUSE_URL: url });
    expect(message).toMatch(/^CLICKHOUSE_URL must be .*percent-encoded/);
    expect(message).not.toContain("CANARY");
  });

  it.each(["http://ch", "https://u:p%23%40@[::1]:8443/db", "http://u@ch:8123/", "http://:p@ch/db"])(
    "takes a ClickHouse URL such as %s",
    (url) => {
      expect(loadConfig({ CLICKHOUSE_URL: url }).clickhouseUrl).toBe(url);
    },
  );

  it.each([
    "postgres://u:CANARY@host:notaport/db",
    "postgres://u:CANARY/word@host/db",
    "postgres://u:12/CANARY@host/db",
    "postgres://u:CANARY#word@host/db",
    "postgres://u:12#CANARY@host/db",
    "postgres://u:12?CANARY@host",
    "postgres://u:CANARY%ff@host/db",
    "postgres://u:CANARY@a:5432,b:5432/db",
    "postgres://u:CANARY@a,b/db",
    "postgres://u:CANARY@/db?host=a,b",
    "mysql://u:CANARY@host/db",
  ])(
    "refuses DATABASE_URL=%s in one line without the password: the summary threw a stack",
    (url) => {
      const message = refusal({ DATABASE_URL: url, RELAY_ENCRYPTION_KEY: KEY });
      expect(message).toMatch(/^DATABASE_URL must be postgresql:.* password percent-encoded/);
      expect(message).not.toContain("CANARY");
    },
  );

  it.each([
    ["postgres://u:p%2Fw%40@host:5432/db?sslmode=require", "postgres://host:5432/db"],
    ["postgresql://u:100%@host/db?application_name=a@b", "postgresql://host/db"],
    ["postgresql://host?user=a&password=CANARY", "postgresql://host"],
    ["postgresql:///db?host=/var/run/postgresql", "postgresql:///db"],
    ["postgresql://u:CANARY@/db?host=/var/run/postgresql", "postgresql:///db"],
    ["postgresql://u:CANARY@%2Fvar%2Frun/db", "postgresql://%2Fvar%2Frun/db"],
    ["postgresql://u:p@ss@[::1]:5432/db", "postgresql://[::1]:5432/db"],
  ])("takes DATABASE_URL=%s as pg does, and shows where it leads", (url, shown) => {
    const config = loadConfig({ DATABASE_URL: url, RELAY_ENCRYPTION_KEY: KEY });
    expect(config.databaseUrl).toBe(url);
    expect(summarizeConfig(config)["databaseUrl"]).toBe(shown);
  });

  it.each(["port=abc", "port=0", "port=99999", "port=-1", "port=5432,5433", "port=54x"])(
    "regression: refuses DATABASE_URL with %s: commands ended without a word",
    (parameter) => {
      const url = `postgresql://u:CANARY@host/db?${parameter}`;
      const message = refusal({ DATABASE_URL: url, RELAY_ENCRYPTION_KEY: KEY });
      expect(message).toMatch(/^DATABASE_URL must be postgresql:.*@host:5432/);
      expect(message).not.toContain("CANARY");
    },
  );

  it.each(["sslmode=disabled", "sslmode=VERIFY-FULL", "sslmode=allow", "sslnegotiation=tls"])(
    "regression: refuses DATABASE_URL with %s, which is none of the values: it was taken",
    (parameter) => {
      const url = `postgresql://u:CANARY@host/db?${parameter}`;
      expect(refusal({ DATABASE_URL: url, RELAY_ENCRYPTION_KEY: KEY })).toBe(NO_TLS_PARAMETER);
    },
  );

  it.each(["ssl=false", "ssl=yes", "ssl=TRUE", "ssl="])(
    "refuses DATABASE_URL with %s, on which pg throws where nothing catches it: the process ended with a stack",
    (parameter) => {
      const url = `postgresql://u:CANARY@host/db?${parameter}`;
      expect(refusal({ DATABASE_URL: url, RELAY_ENCRYPTION_KEY: KEY })).toBe(NO_TLS_PARAMETER);
    },
  );

  it.each([
    "ssl=true",
    "ssl=1",
    "ssl=0",
    "ssl=no-verify",
    "sslmode=verify-full",
    "sslmode=disable",
    "sslmode=no-verify",
    "sslcert=/c",
    "sslkey=/k",
    "sslrootcert=/r",
    "sslnegotiation=direct",
    "nossl=1",
    "port=5433",
    "port=",
  ])("takes DATABASE_URL with %s", (parameter) => {
    const url = `postgresql://u:p@host/db?${parameter}`;
    expect(() => loadConfig({ DATABASE_URL: url, RELAY_ENCRYPTION_KEY: KEY })).not.toThrow();
  });

  it.each([
    "sslmod=require",
    "sslMode=require",
    "SSLMODE=require",
    "ssl-mode=require",
    "sslmode=",
    "tls=true",
  ])(
    "refuses DATABASE_URL with %s, which pg overlooks: the password was sent without TLS",
    (parameter) => {
      const url = `postgresql://u:CANARY@host/db?application_name=x&${parameter}`;
      expect(refusal({ DATABASE_URL: url, RELAY_ENCRYPTION_KEY: KEY })).toBe(NO_TLS_PARAMETER);
    },
  );

  it.each(["RELAY_PUBLIC_INGEST_URL", "RELAY_TEST_INGEST_URL"])(
    "refuses a %s that no path can be put behind: user, query and fragment were taken",
    (name) => {
      for (const url of [
        "https://u:p@in.example",
        "https://@in.example",
        "https://in.example?a=b",
        "https://in.example/?",
        "https://in.example/#top",
        "https:in.example",
        "https://in.example/a b",
      ])
        expect(refusal({ [name]: url })).toBe(
          `${name} must be http(s)://host[:port][/path], without user, query or fragment`,
        );
      for (const url of ["https://in.example/", "HTTP://[::1]:8081/hooks/@me/"])
        expect(() => loadConfig({ [name]: url })).not.toThrow();
    },
  );

  it("shows no secret in the summary", () => {
    const summary = JSON.stringify(
      summarizeConfig(
        loadConfig({
          DATABASE_URL: "postgresql://u:CANARY1@db/relay?password=CANARY2",
          CLICKHOUSE_URL: "http://u:CANARY3@ch:8123/relay",
          KAFKA_BROKERS: "k:9092",
          KAFKA_SASL_MECHANISM: "plain",
          KAFKA_SASL_USERNAME: "u",
          KAFKA_SASL_PASSWORD: "CANARY4",
          RELAY_ENCRYPTION_KEY: KEY,
          RELAY_BOOTSTRAP_API_KEY: "rk_abcdefgh_CANARY5CANARY5CANARY5",
        }),
      ),
    );
    expect(summary).not.toContain("CANARY");
    expect(summary).not.toContain(KEY);
    expect(summary).toContain("postgresql://db/relay");
  });

  it("summarizes a key of the operator's own form as set: its first eleven characters were logged", () => {
    const shown = (key: string) =>
      (
        summarizeConfig(loadConfig({ RELAY_BOOTSTRAP_API_KEY: key }))["bootstrap"] as {
          apiKey: string;
        }
      ).apiKey;
    expect(shown("S3cr3t-k3y-0123!")).toBe("set");
    expect(shown("rk_abcdefghijklmnopqrst")).toBe("set");
    expect(shown("rk_abcdefgh_0123456789abcdef0123")).toBe("rk_abcdefgh");
  });

  it("states the version of package.json", () => {
    const { version } = JSON.parse(
      readFileSync(new URL("../../package.json", import.meta.url), "utf8"),
    ) as { version: string };
    expect(RELAY_VERSION).toBe(version);
  });
});
