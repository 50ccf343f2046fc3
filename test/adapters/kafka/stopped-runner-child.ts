import { createRequire } from "node:module";
import { EventEmitter } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { guardStoppedRunner } from "../../../src/adapters/kafka/guards/stopped-runner-guard.ts";

/** Stops a consumer while its set of brokers changes; without the guard this process never ends. */
guardStoppedRunner();
guardStoppedRunner();
const Runner = createRequire(import.meta.url)("kafkajs/src/consumer/runner.js");
const nothing = (): void => undefined;
const logger = { namespace: () => logger, debug: nothing, info: nothing, error: nothing };
let brokers = ["1", "2", "3"];
let left = 0;
const runner = new Runner({
  logger,
  concurrency: 1,
  instrumentationEmitter: new EventEmitter(),
  onCrash: (error: Error) => {
    throw error;
  },
  consumerGroup: {
    groupId: "g",
    memberId: "m",
    connect: async () => undefined,
    joinAndSync: async () => undefined,
    getNodeIds: () => brokers,
    // Broker 2 is slow to answer: the new fetchers wait for it.
    fetch: (nodeId: string) => sleep(nodeId === "2" ? 500 : 20).then(() => []),
    heartbeat: async () => undefined,
    leave: async () => {
      left += 1;
    },
  },
});
await runner.start();
await sleep(100);
brokers = ["1", "3"];
await sleep(100);
await runner.stop();
process.stdout.write(`left ${left} time(s)\n`);
