import { createRequire } from "node:module";
import { EventEmitter } from "node:events";
import { afterEach, expect, test, vi } from "vitest";
import {
  guardRequestQueue,
  THROTTLED,
} from "../../../src/adapters/kafka/guards/request-queue-guard.ts";

const nothing = () => {};

function makeQueue(warn: (message: string, fields: object) => void, enforceRequestTimeout = false) {
  guardRequestQueue();
  guardRequestQueue();
  const RequestQueue = createRequire(import.meta.url)("kafkajs/src/network/requestQueue/index.js");
  return new RequestQueue({
    maxInFlightRequests: 1,
    requestTimeout: 1_000,
    enforceRequestTimeout,
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

test("regression: a connection that is told to wait for days, by an answer whose bytes were damaged, sends again after half a minute: the process asked that broker for nothing more, and answered every webhook with 503", () => {
  vi.useFakeTimers();
  const queue = makeQueue(nothing);
  const sendRequest = vi.fn<() => void>();
  queue.maybeThrottle(822_083_669);
  queue.push({ entry: { correlationId: 1 }, expectResponse: true, sendRequest });
  queue.scheduleCheckPendingRequests();
  vi.advanceTimersByTime(29_000);
  expect(sendRequest).not.toHaveBeenCalled();
  vi.advanceTimersByTime(2_000);
  expect(sendRequest).toHaveBeenCalledOnce();
  queue.destroy();
});

test.each([
  ["on", 3_600_000],
  ["back", -3_600_000],
])(
  "regression: requests time out by a steady clock also when the wall clock is set %s: set on, all of them did at once, and set back, none",
  (_way, byMs) => {
    vi.useFakeTimers();
    const queue = makeQueue(nothing, true);
    const timeout = vi.fn<() => void>();
    const reject = vi.fn<(error: Error) => void>();
    queue.scheduleRequestTimeoutCheck();
    const entry = { correlationId: 1, reject };
    queue.push({ entry, expectResponse: true, sendRequest: nothing, timeout });
    vi.advanceTimersByTime(200);
    vi.setSystemTime(Date.now() + byMs);
    vi.advanceTimersByTime(700);
    expect(reject).not.toHaveBeenCalled();
    vi.advanceTimersByTime(400);
    expect(reject.mock.calls).toMatchObject([[{ name: "KafkaJSRequestTimeoutError" }]]);
    queue.destroy();
  },
);
