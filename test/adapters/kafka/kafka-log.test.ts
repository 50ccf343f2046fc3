import { isDeepStrictEqual } from "node:util";
import { expect, test, vi } from "vitest";
import { KafkaConsumer } from "../../../src/adapters/kafka/consume/kafka-consumer.ts";
import { TOPICS, type ConsumerOptions, type Log } from "../../../src/domain/log.ts";
import { collectGarbage } from "../../support/collect-garbage.ts";
import { PlayedCluster } from "../../support/played-cluster.ts";
import { openPlayedLog } from "../../support/played-log.ts";
import { makeSilentLogger } from "../../support/silent-logger.ts";
import { until } from "../../support/wait-for.ts";

test("regression: the log lets go of a consumer that has ended: with each restart of a part its former consumer, and all that hung from it, stayed in memory", async () => {
  await using cluster = await PlayedCluster.start(1, TOPICS);
  await using log = await openPlayedLog(cluster);
  // The played cluster does not support groups.
  const start = vi.spyOn(KafkaConsumer.prototype, "start").mockResolvedValue(undefined);
  const options = await consumeAndEnd(log);
  start.mockRestore();
  await new Promise((resolve) => setImmediate(resolve));
  collectGarbage();
  expect(options.deref()).toBeUndefined();
});

test("regression: while no broker answers, the line says which one failed, and how: it gave a TypeError of the client, or left the broker out", async () => {
  await using cluster = await PlayedCluster.start(1, TOPICS);
  const told: object[] = [];
  await using _log = await openPlayedLog(cluster, {
    metadataMaxAgeMs: 100,
    logger: makeSilentLogger((_level, message, fields) => {
      if (message === "log.metadata_not_refreshed") told.push(fields);
    }),
  });
  const [broker] = cluster.addresses;
  const [node] = cluster.nodes;
  // The client asks for the metadata twice: for itself, and for the answer.
  node!.state = "failing";
  await until(() => told.length > 1, "the lines");
  const closed = { broker, err: "KafkaJSConnectionClosedError: Closed connection" };
  expect(told.slice(0, 2)).toEqual([closed, closed]);
  await cluster[Symbol.asyncDispose]();
  const refused = {
    broker,
    err: `KafkaJSConnectionError: Connection error: connect ECONNREFUSED ${broker}`,
  };
  await until(() => told.some((line) => isDeepStrictEqual(line, refused)), "the line when gone");
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
