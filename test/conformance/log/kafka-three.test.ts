import { afterAll, describe } from "vitest";
import { startKafka, type TestKafka } from "../../support/stores/kafka.ts";
import { kafkaHarness } from "../../support/stores/kafka-harness.ts";
import { skipOrFail } from "../../support/stores/skip-or-fail.ts";
import { logConformance } from "./suite.ts";

const kafka: TestKafka | Error = await startKafka({ brokers: 3 }).catch((error: Error) => error);

describe.skipIf(kafka instanceof Error && skipOrFail("three Kafka brokers", kafka))(
  "on three brokers, replication 3, two in sync",
  () => {
    afterAll(async () => {
      if (!(kafka instanceof Error)) await kafka[Symbol.asyncDispose]();
    });
    logConformance(
      kafkaHarness("kafka (3 brokers)", () => (kafka instanceof Error ? [] : kafka.brokers)),
    );
  },
);
