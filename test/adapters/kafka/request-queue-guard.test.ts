import { createRequire } from "node:module";
import { EventEmitter } from "node:events";
import { afterEach, expect, test, vi } from "vitest";
import {
  guardRequestQueue,
  THROTTLED,
} from "../../../src/adapters/kafka/guards/request-queue-guard.ts";

const nothing = () => {};

function makeQueue(warn: (message: string, fields: object) => void) {
  guardRequestQueue();
  guardRequestQueue();
  const RequestQueue = createRequire(import.meta.url)("kafkajs/src/network/requestQueue/index.js");
  return new RequestQueue({
    maxInFlightRequests: 1,
    requestTimeout: 1_000,
    enforceRequestTimeout: false,
    clientId: "t",
    broker: "b",
    logger: { debug: nothing, warn },
    isConnected: () => true,
    instrumentationEmitter: new EventEmitter(),
  });
}

afterEach(() => vi.useRealTimers());

test("regression kafkajs 1751: a request queue with nothing to do keeps no timer running", () => {
  const warn = vi.fn<(message: string, fields: object) => void>();
  const queue = makeQueue(warn);
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

test("regression: a throttled connection sends again when the broker said also after the wall clock was set back: for as long as that nothing was sent", () => {
  vi.useFakeTimers();
  const queue = makeQueue(nothing);
  const sendRequest = vi.fn<() => void>();
  queue.maybeThrottle(300);
  queue.push({ entry: { correlationId: 1 }, expectResponse: true, sendRequest });
  queue.scheduleCheckPendingRequests();
  vi.setSystemTime(Date.now() - 86_400_000);
  vi.advanceTimersByTime(250);
  expect(sendRequest).not.toHaveBeenCalled();
  // The check that was under way finds that the wait begins anew.
  vi.advanceTimersByTime(400);
  expect(sendRequest).toHaveBeenCalledOnce();
  queue.destroy();
});
