import { expect, test, vi } from "vitest";
import { KafkaConsumer } from "../../../src/adapters/kafka/consume/kafka-consumer.ts";
import { openKafkaLog } from "../../../src/adapters/kafka/kafka-log.ts";
import { TOPICS, type ConsumerOptions, type Log } from "../../../src/domain/log.ts";
import { collectGarbage } from "../../support/collect-garbage.ts";
import { PlayedCluster } from "../../support/played-cluster.ts";
import { makeSilentLogger } from "../../support/silent-logger.ts";

test("regression: the log lets go of a consumer that has ended: with each restart of a part its former consumer, and all that hung from it, stayed in memory", async () => {
  await using cluster = await PlayedCluster.start(1, TOPICS);
  await using log = await openKafkaLog({
    connection: { brokers: cluster.addresses, clientId: "t" },
    topicPrefix: "",
    partitions: 1,
    replicationFactor: null,
    maxRecordBytes: 1_000,
    retentionMs: 1_000,
    logger: makeSilentLogger(),
  });
  // The played cluster does not support groups.
  const start = vi.spyOn(KafkaConsumer.prototype, "start").mockResolvedValue(undefined);
  const options = await consumeAndEnd(log);
  start.mockRestore();
  await new Promise((resolve) => setImmediate(resolve));
  collectGarbage();
  expect(options.deref()).toBeUndefined();
});

/** Consumes with options that no variable of the test holds. */
async function consumeAndEnd(log: Log): Promise<WeakRef<ConsumerOptions>> {
  const options: ConsumerOptions = {
    group: "g",
    topics: ["events"],
    onAssigned: async () => undefined,
    onRevoked: async () => undefined,
    onRecords: () => undefined,
    onError: () => undefined,
  };
  await using _consumer = await log.consume(options);
  return new WeakRef(options);
}
