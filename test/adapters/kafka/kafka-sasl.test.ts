import { afterAll, describe, expect, test } from "vitest";
import { freshPrefix, openTestKafkaLog } from "../../support/stores/kafka-harness.ts";
import { startLocalKafka, type LocalKafka } from "../../support/stores/kafka-local.ts";
import { skipOrFail } from "../../support/stores/skip-or-fail.ts";

const LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule required";
const started: LocalKafka | Error = await startLocalKafka(1, {
  "listener.security.protocol.map":
    "PLAINTEXT:SASL_PLAINTEXT,INTERNAL:PLAINTEXT,CONTROLLER:PLAINTEXT",
  "sasl.enabled.mechanisms": "PLAIN",
  "sasl.mechanism.inter.broker.protocol": "PLAIN",
  "listener.name.plaintext.plain.sasl.jaas.config": `${LOGIN} username="broker" password="b" user_broker="b" user_relay="right";`,
}).catch((error: Error) => error);

describe.skipIf(started instanceof Error && skipOrFail("a local Kafka broker", started))(
  "SASL",
  { timeout: 60_000 },
  () => {
    const kafka = started as LocalKafka;
    afterAll(() => kafka[Symbol.asyncDispose]());
    const openAs = (password: string) =>
      openTestKafkaLog(kafka.brokers, {
        topicPrefix: freshPrefix(),
        connection: {
          brokers: kafka.brokers,
          clientId: "t",
          sasl: { mechanism: "plain", username: "relay", password },
        },
      });

    test("the right password opens the log and appends", async () => {
      await using log = await openAs("right");
      const [position] = await log.append([{ topic: "events", key: "k", value: Buffer.from("x") }]);
      expect(position?.offset).toBe(0);
    });

    test("a wrong password is told at start, without showing it", async () => {
      const failure = await openAs("wrong-secret").then(
        () => null,
        (error: Error) => error,
      );
      expect(failure?.message).toMatch(/Kafka at 127\.0\.0\.1:\d+ cannot be used: .*SASL/i);
      expect(failure?.message).not.toContain("wrong-secret");
    });

    test("regression: who comes with TLS learns that none may be spoken", async () => {
      const connection = { brokers: kafka.brokers, clientId: "t", tls: true };
      let nowMs = 0;
      // Such a broker hangs up as one that goes away does, which is waited for.
      const monotonic = () => (nowMs += 10_000);
      await expect(openTestKafkaLog(kafka.brokers, { connection, monotonic })).rejects.toThrow(
        /before secure TLS connection was established: it may speak no TLS at this port$/,
      );
    });
  },
);
