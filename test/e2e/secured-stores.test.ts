import { createPrivateKey } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { startTestClickHouse, type TestClickHouse } from "../support/clickhouse.ts";
import { createGithubEndpoint, postGithubWebhook } from "../support/github-webhook.ts";
import { startTestPostgres, type TestPostgres } from "../support/postgres.ts";
import { startReceiver } from "../support/receiver.ts";
import { makeRelayProcess, type RelayProcess } from "../support/relay-process.ts";
import { startLocalKafka, type LocalKafka } from "../support/stores/kafka-local.ts";
import { skipOrFail } from "../support/stores/skip-or-fail.ts";
import { startTlsFront, type TlsFront } from "../support/tls-front.ts";
import { makeCertificates } from "../support/undici-certificates.ts";
import { waitFor } from "../support/wait-for.ts";

const PASSWORD = "p%2F@?#&:x";
const OPS_HOST = "127.0.0.2";

const { ca, good } = makeCertificates();
const pem = (text: string) => text.trim().replaceAll("\n", "\\n");
const key = createPrivateKey(good.key).export({ type: "pkcs8", format: "pem" });
const LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required";
const started: LocalKafka | Error = await startLocalKafka(1, {
  "listener.security.protocol.map": "PLAINTEXT:SASL_SSL,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
  "sasl.enabled.mechanisms": "PLAIN",
  "listener.name.plaintext.plain.sasl.jaas.config": `${LOGIN} user_relay="${PASSWORD}";`,
  "ssl.keystore.type": "PEM",
  "ssl.keystore.certificate.chain": pem(good.cert),
  "ssl.keystore.key": pem(key.toString()),
}).catch((error: Error) => error);

/** What each adapter does with TLS and passwords is tested with it: here, that the settings reach all of them. */
describe.skipIf(started instanceof Error && skipOrFail("a local Kafka broker", started))(
  "a relay whose stores speak TLS by a certificate of a private authority",
  () => {
    const kafka = started as LocalKafka;
    const fronts: TlsFront[] = [];
    let directory: string;
    let postgres: TestPostgres;
    let clickhouse: TestClickHouse;
    let relay: RelayProcess;

    beforeAll(async () => {
      directory = await mkdtemp(join(tmpdir(), "relay-secured-"));
      const caFile = join(directory, "ca.pem");
      await writeFile(caFile, ca);
      [postgres, clickhouse] = await Promise.all([startTestPostgres(), startTestClickHouse()]);
      const { host, port, user, database } = postgres.embedded.connection;
      const path = join(host, `.s.PGSQL.${port}`);
      const clickhouseUrl = new URL(clickhouse.url);
      fronts.push(
        await startTlsFront({ path }, good, "postgres"),
        await startTlsFront({ host: "127.0.0.1", port: Number(clickhouseUrl.port) }, good),
      );
      clickhouseUrl.protocol = "https:";
      clickhouseUrl.port = String(fronts[1]?.port);
      relay = await makeRelayProcess({
        NODE_EXTRA_CA_CERTS: caFile,
        DATABASE_URL: `postgresql://${user}@127.0.0.1:${fronts[0]?.port}/${database}?sslmode=verify-full`,
        CLICKHOUSE_URL: clickhouseUrl.href,
        KAFKA_BROKERS: kafka.brokers.join(","),
        KAFKA_SSL: "true",
        KAFKA_SASL_MECHANISM: "plain",
        KAFKA_SASL_USERNAME: "relay",
        KAFKA_SASL_PASSWORD: PASSWORD,
        RELAY_ENCRYPTION_KEY: Buffer.alloc(32, 7).toString("base64"),
        RELAY_PARTITIONS: "2",
        RELAY_RETENTION_DAYS: "7",
        RELAY_OPS_HOST: OPS_HOST,
      });
      await relay.start();
    }, 120_000);
    afterAll(async () => {
      await relay[Symbol.asyncDispose]();
      for (const front of fronts) await front[Symbol.asyncDispose]();
      await Promise.all([
        postgres[Symbol.asyncDispose](),
        clickhouse[Symbol.asyncDispose](),
        kafka[Symbol.asyncDispose](),
      ]);
      await rm(directory, { recursive: true });
    });

    it("takes, delivers and records a webhook, and prints no password", async () => {
      await using receiver = await startReceiver();
      const endpoint = await createGithubEndpoint(relay.client, "Secured");
      await relay.client.destinations.create(endpoint.id, {
        name: "Ours",
        receiver_url: receiver.url,
      });
      const { status, eventId } = await postGithubWebhook(endpoint.url, "{}");
      expect(status).toBe(200);
      await waitFor("the delivery", () => receiver.requests.length === 1);
      await waitFor("the recorded event", async () => {
        const { data } = await relay.client.events.search({ endpoint_id: endpoint.id });
        return data.some(({ id }) => id === eventId);
      });
      expect(relay.output()).not.toContain(PASSWORD);
      expect(relay.output()).not.toContain(new URL(clickhouse.url).password);
    }, 60_000);

    it("RELAY_OPS_HOST: serves operations at this address alone", async () => {
      const statusAt = (host: string) =>
        fetch(`http://${host}:${relay.ports.ops}/readyz`).then(
          ({ status }) => status,
          () => null,
        );
      expect(await waitFor("readiness", () => statusAt(OPS_HOST))).toBe(200);
      expect(await statusAt("127.0.0.1")).toBeNull();
    });

    it("RELAY_RETENTION_DAYS reaches the tables of ClickHouse", async () => {
      const answer = await clickhouse.client.query({
        query: `SELECT name, extract(engine_full, 'toIntervalDay\\((\\d+)\\)') AS days FROM system.tables
                WHERE database = currentDatabase() AND name IN ('events', 'attempts', 'fanouts') ORDER BY name`,
        format: "JSONEachRow",
      });
      expect(await answer.json()).toEqual(
        ["attempts", "events", "fanouts"].map((name) => ({ name, days: "7" })),
      );
    });
  },
);
