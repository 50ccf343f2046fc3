import { readFileSync } from "node:fs";
import { expect, it } from "vitest";
import { warnOfSettings } from "../../src/app/warn-of-settings.ts";
import { loadConfig } from "../../src/config/load-config.ts";
import { makeSilentLogger } from "../support/silent-logger.ts";

function warningsOf(env: Record<string, string>, mode: "serve" | "none" = "serve"): unknown[] {
  const warnings: unknown[] = [];
  const logger = makeSilentLogger((level, message, fields) => {
    if (level === "warn") warnings.push([message, fields]);
  });
  warnOfSettings(loadConfig(env), mode, logger);
  return warnings;
}

it("warns of embedded stores beside a Kafka that others may use: a second process recorded its half of the events where the API did not find them", () => {
  const KAFKA_BROKERS = "127.0.0.1:9092";
  const stored = {
    DATABASE_URL: "postgresql://relay:relay@127.0.0.1:5432/relay",
    RELAY_ENCRYPTION_KEY: Buffer.alloc(32, 1).toString("base64"),
  };
  const warning = (unset: readonly string[]) => [
    ["relay.stores_not_shared", expect.objectContaining({ unset })],
  ];
  expect(warningsOf({ KAFKA_BROKERS, ...stored })).toEqual(warning(["CLICKHOUSE_URL"]));
  expect(warningsOf({ KAFKA_BROKERS })).toEqual(warning(["DATABASE_URL", "CLICKHOUSE_URL"]));
  expect(warningsOf({ KAFKA_BROKERS, ...stored }, "none")).toEqual([]);
  expect(warningsOf({})).toEqual([]);
});

it("warns of an ingest that does not listen where the URLs of its endpoints say: what was sent there arrived nowhere", () => {
  const warning = [["relay.ingest_not_at_its_url", expect.objectContaining({ host: "10.0.0.7" })]];
  expect(warningsOf({ RELAY_INGEST_HOST: "10.0.0.7" })).toEqual(warning);
  const publicUrl = { RELAY_PUBLIC_INGEST_URL: "https://hooks.example" };
  expect(warningsOf({ RELAY_INGEST_HOST: "10.0.0.7", ...publicUrl })).toEqual([]);
  for (const host of ["::1", "LocalHost"])
    expect(warningsOf({ RELAY_INGEST_HOST: host })).toEqual([]);
  const elsewhere = { RELAY_ROLES: "api,delivery", RELAY_INGEST_HOST: "10.0.0.7" };
  expect(warningsOf(elsewhere)).toEqual([]);
});

it("names settings that do nothing: three replicas were asked for of an embedded log, without a word", () => {
  const unused = (...names: string[]) => [
    ["relay.settings_unused", expect.objectContaining({ unused: names })],
  ];
  expect(warningsOf({ RELAY_REPLICATION_FACTOR: "3", RELAY_TOPIC_PREFIX: "a." })).toEqual(
    unused("RELAY_TOPIC_PREFIX", "RELAY_REPLICATION_FACTOR"),
  );
  const postgres = {
    DATABASE_URL: "postgresql://relay:relay@127.0.0.1:5432/relay",
    RELAY_ENCRYPTION_KEY: Buffer.alloc(32, 1).toString("base64"),
  };
  expect(warningsOf({ ...postgres, RELAY_BOOTSTRAP_ORG: "acme" })).toEqual(
    unused("RELAY_BOOTSTRAP_ORG"),
  );
  expect(warningsOf({ RELAY_BOOTSTRAP_ORG: "acme" })).toEqual([]);
});

it("names KAFKA_BROKERS where nobody delivers: whoever had mistyped it was told to add a role", () => {
  expect(warningsOf({ RELAY_ROLES: "ingest" })).toEqual([
    [
      "relay.nobody_delivers",
      expect.objectContaining({ mend: expect.stringContaining("set KAFKA_BROKERS") as unknown }),
    ],
  ]);
});

it("tells of keys that stand in the examples, by their names alone: a cluster ran on them without a word", () => {
  const compose = readFileSync("deploy/compose.yaml", "utf8");
  const examples = [
    ...compose.matchAll(/RELAY_ENCRYPTION_KEY: (\S+)/g),
    ...readFileSync("deploy/kubernetes/overlays/example/kustomization.yaml", "utf8").matchAll(
      /RELAY_ENCRYPTION_KEY=(\S+)/g,
    ),
    ...readFileSync("config/cluster-api.env", "utf8").matchAll(/RELAY_ENCRYPTION_KEY=(\S+)/g),
  ].map(([, key]) => key!);
  expect(examples).toHaveLength(3);
  for (const key of examples)
    expect(warningsOf({ RELAY_ENCRYPTION_KEY: key })).toEqual([
      [
        "relay.example_keys",
        { settings: ["RELAY_ENCRYPTION_KEY"], mend: expect.stringContaining("your own") },
      ],
    ]);
  const key = /RELAY_BOOTSTRAP_API_KEY:-(\S+?)\}/.exec(compose)![1]!;
  expect(warningsOf({ RELAY_BOOTSTRAP_API_KEY: key })).toMatchObject([
    ["relay.example_keys", { settings: ["RELAY_BOOTSTRAP_API_KEY"] }],
  ]);
});
