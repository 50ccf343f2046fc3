import { expect, test } from "vitest";
import { THROTTLED } from "../../../src/adapters/kafka/guards/request-queue-guard.ts";
import { makeKafkaClient } from "../../../src/adapters/kafka/kafka-client.ts";
import { makeSilentLogger } from "../../support/silent-logger.ts";

test("regression: a quota that holds the process back is told of, once a minute at most: events lay for minutes, and no line said why", () => {
  const told: object[] = [];
  const logger = makeSilentLogger((level, message, fields) => {
    if (level === "warn") told.push({ message, ...fields });
  });
  const client = makeKafkaClient({ brokers: ["127.0.0.1:1"], clientId: "t" }, logger, {});
  for (const throttleMs of [900, 11_000])
    client.logger().warn(THROTTLED, { broker: "b:1", throttleMs });
  const mend: unknown = expect.stringMatching(/a quota of the brokers .* raise it/);
  expect(told).toEqual([{ message: "log.throttled", broker: "b:1", throttleMs: 900, mend }]);
});
