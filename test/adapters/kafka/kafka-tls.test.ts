import { createPrivateKey } from "node:crypto";
import { afterAll, describe, expect, test } from "vitest";
import { freshPrefix, openTestKafkaLog } from "../../support/stores/kafka-harness.ts";
import { startLocalKafka, type LocalKafka } from "../../support/stores/kafka-local.ts";
import { skipOrFail } from "../../support/stores/skip-or-fail.ts";
import { makeCertificates } from "../../support/undici-certificates.ts";

const certificates = makeCertificates();
const pem = (text: string) => text.trim().replaceAll("\n", "\\n");
const key = createPrivateKey(certificates.good.key).export({ type: "pkcs8", format: "pem" });
const started: LocalKafka | Error = await startLocalKafka(1, {
  "listener.security.protocol.map": "PLAINTEXT:SSL,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
  "ssl.keystore.type": "PEM",
  "ssl.keystore.certificate.chain": pem(certificates.good.cert),
  "ssl.keystore.key": pem(key.toString()),
  "ssl.truststore.type": "PEM",
  "ssl.truststore.certificates": pem(certificates.ca),
}).catch((error: Error) => error);

describe.skipIf(started instanceof Error && skipOrFail("a local Kafka broker", started))(
  "TLS",
  { timeout: 60_000 },
  () => {
    const kafka = started as LocalKafka;
    afterAll(() => kafka[Symbol.asyncDispose]());
    const openWith = (tls: boolean | { readonly ca: string }) =>
      openTestKafkaLog(kafka.brokers, {
        topicPrefix: freshPrefix(),
        connection: { brokers: kafka.brokers, clientId: "t", tls },
      });

    test("a broker whose authority is trusted is used", async () => {
      await using log = await openWith({ ca: certificates.ca });
      const [position] = await log.append([{ topic: "events", key: "k", value: Buffer.from("x") }]);
      expect(position?.offset).toBe(0);
    });

    test("a broker whose authority is unknown is refused", async () => {
      await expect(openWith(true)).rejects.toThrow(
        /cannot be used: .*certificate: trust its authority with NODE_EXTRA_CA_CERTS=/,
      );
    });

    test("regression: who comes without TLS learns that it may be asked for: all it was told was `Closed connection`", async () => {
      await expect(openWith(false)).rejects.toThrow(
        "Closed connection: it may ask for TLS (KAFKA_SSL=true) or a password (KAFKA_SASL_MECHANISM) at this port",
      );
    });
  },
);
