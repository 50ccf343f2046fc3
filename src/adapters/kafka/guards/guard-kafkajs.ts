import { guardBroker } from "./broker-guard.ts";
import { guardBrokerPool } from "./broker-pool-guard.ts";
import { guardConnection } from "./connection-guard.ts";
import { guardConsumerGroup } from "./consumer-group-guard.ts";
import { guardEncoder } from "./encoder-guard.ts";
import { guardLeaders } from "./leader-guard.ts";
import { guardRequestQueue } from "./request-queue-guard.ts";
import { guardStoppedRunner } from "./stopped-runner-guard.ts";

/** Patches the prototypes of kafkajs wherever it gets something wrong, once per process. */
export function guardKafkajs(): void {
  guardConnection();
  guardEncoder();
  guardRequestQueue();
  guardStoppedRunner();
  guardBroker();
  guardBrokerPool();
  guardLeaders();
  guardConsumerGroup();
}
