import { afterEach, beforeEach, expect, test } from "vitest";
import { makeKafkaClient } from "../../../src/adapters/kafka/kafka-client.ts";
import { TOPICS } from "../../../src/domain/log.ts";
import { PlayedCluster } from "../../support/played-cluster.ts";
import { openPlayedLog } from "../../support/played-log.ts";
import { silentLogger } from "../../support/silent-logger.ts";

let cluster: PlayedCluster;

beforeEach(async () => {
  cluster = await PlayedCluster.start(3, TOPICS);
});

afterEach(() => cluster[Symbol.asyncDispose]());

test("regression: a first address that takes connections and closes them is passed over: no process started, and the other brokers were never asked", async () => {
  const [proxy] = cluster.nodes;
  proxy!.state = "closing";
  proxy!.isFenced = true;
  await using log = await openPlayedLog(cluster);
  expect(log.partitions).toBe(3);
  expect(proxy!.unanswered).toBeGreaterThan(0);
});

test("regression: a consumer that starts again begins with another broker: one that was frozen was asked again until it thawed", async () => {
  // Opening a log installs the guards, which then apply to every client.
  await (await openPlayedLog(cluster))[Symbol.asyncDispose]();
  const connection = { brokers: cluster.addresses, clientId: "t" };
  const options = { connectionTimeout: 5_000, requestTimeout: 5_000, retry: { retries: 0 } };
  const consumer = makeKafkaClient(connection, silentLogger, options).consumer({ groupId: "g" });
  const start = async () => {
    await consumer.connect();
    await consumer.subscribe({ topics: ["events"] });
  };
  await start();
  await consumer.disconnect();
  const [seed, next] = cluster.nodes;
  seed!.state = "frozen";
  const connectionsBefore = next!.connections;
  await start();
  await consumer.disconnect();
  expect(seed!.unanswered).toBe(0);
  expect(next!.connections).toBe(connectionsBefore + 1);
});
