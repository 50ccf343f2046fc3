import { dockerAnswers, startKafkaContainer } from "./docker.ts";
import { startLocalKafka } from "./kafka-local.ts";
import type { LocalKafkaOptions } from "./kafka-local.ts";

export interface TestKafka extends AsyncDisposable {
  readonly brokers: readonly string[];
}

/**
 * Starts brokers for tests: those of KAFKA_BROKERS, else a container where a Docker engine answers, else a local process
 * fetched by Maven. Three brokers are always local processes unless given by KAFKA_BROKERS.
 * @throws {Error} that says what is missing: see `skipOrFail`
 */
export async function startKafka({
  brokers,
  jvm = "small",
}: { readonly brokers: 1 | 3 } & Pick<LocalKafkaOptions, "jvm">): Promise<TestKafka> {
  const given = (process.env["KAFKA_BROKERS"] ?? "").split(",").filter((broker) => broker !== "");
  if (given.length >= brokers) return { brokers: given, [Symbol.asyncDispose]: async () => {} };
  if (brokers === 1 && (await dockerAnswers())) return startKafkaContainer();
  return startLocalKafka(brokers, {}, { jvm });
}
