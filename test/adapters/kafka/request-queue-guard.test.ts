import { createRequire } from "node:module";
import { EventEmitter } from "node:events";
import { expect, test, vi } from "vitest";
import {
  guardRequestQueue,
  THROTTLED,
} from "../../../src/adapters/kafka/guards/request-queue-guard.ts";

test("regression kafkajs 1751: a request queue with nothing to do keeps no timer running", () => {
  guardRequestQueue();
  guardRequestQueue();
  const RequestQueue = createRequire(import.meta.url)("kafkajs/src/network/requestQueue/index.js");
  const nothing = () => {};
  const warn = vi.fn<(message: string, fields: object) => void>();
  const queue = new RequestQueue({
    maxInFlightRequests: 1,
    requestTimeout: 1_000,
    enforceRequestTimeout: false,
    clientId: "t",
    broker: "b",
    logger: { debug: nothing, warn },
    isConnected: () => true,
    instrumentationEmitter: new EventEmitter(),
  });
  queue.checkPendingRequests();
  expect(queue.throttleCheckTimeoutId).toBeNull();

  // While the broker throttles, a later check is still scheduled.
  queue.maybeThrottle(10_000);
  queue.scheduleCheckPendingRequests();
  expect(queue.throttleCheckTimeoutId).not.toBeNull();
  queue.maybeThrottle(10);
  expect(warn.mock.calls).toEqual([[THROTTLED, { broker: "b", throttleMs: 10_000 }]]);
  queue.destroy();
});
