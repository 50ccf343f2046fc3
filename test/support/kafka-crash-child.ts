// Joins groups, reports when the broker is gone, and ends them one by one while they crash and restart. Then nothing is
// left to do: the process must end by itself.
import { setTimeout as delay } from "node:timers/promises";
import { openTestKafkaLog } from "./stores/kafka-harness.ts";

const GROUPS = 8;
const BETWEEN_MS = 400;

const log = await openTestKafkaLog(process.argv.slice(2));
let crashed = (): void => undefined;
const firstCrash = new Promise<void>((resolve) => {
  crashed = resolve;
});
const consumers = await Promise.all(
  Array.from({ length: GROUPS }, (_, index) =>
    log.consume({
      group: `group-${index}`,
      topics: ["events"],
      onAssigned: async () => undefined,
      onRevoked: async () => undefined,
      onRecords: () => undefined,
      onError: () => crashed(),
    }),
  ),
);
process.stdout.write("joined\n");
await firstCrash;
for (const consumer of consumers) {
  await consumer[Symbol.asyncDispose]();
  await delay(BETWEEN_MS);
}
await log[Symbol.asyncDispose]();
process.stdout.write("closed\n");
