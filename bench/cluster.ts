// Acknowledged records per second through the log's append path on one Kafka broker, compared with bare kafkajs producing
// the same bytes in the same run. Broker and load share the machine.
//
// Uses KAFKA_BROKERS when set; otherwise starts a local broker.
import { randomBytes } from "node:crypto";
import { openKafkaLog } from "../src/adapters/kafka/kafka-log.ts";
import { makeKafkaClient } from "../src/adapters/kafka/kafka-client.ts";
import { partitionOf } from "../src/domain/partition.ts";
import { startKafka } from "../test/support/stores/kafka.ts";
import { freshPrefix, quietLogger } from "../test/support/stores/kafka-harness.ts";
import { readNumbers } from "./lib/read-options.ts";

const PARTITIONS = 12;
const KAFKAJS_BATCH = 500;
const KAFKAJS_IN_FLIGHT = 3;
const ENDPOINTS = 200;

const USAGE =
  "npx tsx bench/cluster.ts [seconds per side, default 5] [record bytes, default 1024] [appends in flight, default 2000]";
const given = readNumbers(USAGE, { seconds: "5", bytes: "1024", "in flight": "2000" });
const seconds = Number(given.seconds);
const sizeBytes = Number(given.bytes);
const inFlight = Number(given["in flight"]);
const value = randomBytes(sizeBytes);
const keys = Array.from({ length: ENDPOINTS }, (_, n) => `ep_${n}`);
const keyAt = (n: number) => keys[n % keys.length] ?? "";

interface Figures {
  readonly perSecond: number;
  readonly p50Ms: number;
  readonly p99Ms: number;
  /** CPU used by this process, in seconds per second. */
  readonly cpu: number;
}

/** Runs `lanes` concurrent loops of `once`, which returns how many records were acknowledged, for the given time. */
async function measure(lanes: number, once: (lane: number) => Promise<number>): Promise<Figures> {
  const latenciesMs: number[] = [];
  let records = 0;
  const startedMs = performance.now();
  const cpuBefore = process.cpuUsage();
  const endMs = startedMs + seconds * 1_000;
  await Promise.all(
    Array.from({ length: lanes }, async (_, lane) => {
      while (performance.now() < endMs) {
        const sentMs = performance.now();
        const acknowledged = await once(lane);
        records += acknowledged;
        latenciesMs.push(performance.now() - sentMs);
      }
    }),
  );
  const elapsedSeconds = (performance.now() - startedMs) / 1_000;
  const { user, system } = process.cpuUsage(cpuBefore);
  latenciesMs.sort((a, b) => a - b);
  const quantile = (q: number) => latenciesMs[Math.floor(latenciesMs.length * q)] ?? 0;
  return {
    perSecond: Math.round(records / elapsedSeconds),
    p50Ms: Math.round(quantile(0.5) * 10) / 10,
    p99Ms: Math.round(quantile(0.99) * 10) / 10,
    cpu: Math.round(((user + system) / 1e6 / elapsedSeconds) * 100) / 100,
  };
}

await using kafka = await startKafka({ brokers: 1, jvm: "asShipped" });
const topicPrefix = freshPrefix();
const connection = { brokers: kafka.brokers, clientId: "bench" };
await using log = await openKafkaLog({
  connection,
  topicPrefix,
  partitions: PARTITIONS,
  replicationFactor: null,
  maxRecordBytes: 12 * 1024 * 1024,
  retentionMs: 86_400_000,
  logger: quietLogger,
});
const producer = makeKafkaClient(connection, quietLogger, {}).producer({
  allowAutoTopicCreation: false,
});
await producer.connect();

let sent = 0;
const viaLog = async () => {
  sent += 1;
  await log.append([{ topic: "events", key: keyAt(sent), value }]);
  return 1;
};
const viaKafkajs = async () => {
  const messages = Array.from({ length: KAFKAJS_BATCH }, () => {
    sent += 1;
    const key = keyAt(sent);
    return { key, value, partition: partitionOf(key, PARTITIONS) };
  });
  await producer.sendBatch({
    acks: -1,
    topicMessages: [{ topic: `${topicPrefix}events`, messages }],
  });
  return messages.length;
};

const warmUntilMs = performance.now() + 2_000;
while (performance.now() < warmUntilMs)
  await Promise.all([viaKafkajs(), ...Array.from({ length: 500 }, viaLog)]);

// Alternate, so that a machine that slows down slows both.
const rounds = { kafkajs: [] as Figures[], log: [] as Figures[] };
for (let round = 0; round < 2; round += 1) {
  rounds.kafkajs.push(await measure(KAFKAJS_IN_FLIGHT, viaKafkajs));
  rounds.log.push(await measure(inFlight, viaLog));
}
await producer.disconnect();

console.log(
  `${sizeBytes} B records, ${PARTITIONS} partitions, one broker, acks=all, ${seconds} s a side, twice`,
);
console.table({
  "kafkajs alone (500 a batch, 3 in flight)": rounds.kafkajs[1],
  [`the log's append (one a call, ${inFlight} in flight)`]: rounds.log[1],
});
const best = (figures: readonly Figures[]) =>
  Math.max(...figures.map(({ perSecond }) => perSecond));
console.log(`ratio of the best: ${(best(rounds.log) / best(rounds.kafkajs)).toFixed(2)}`);
