import { classToGuard } from "./guard-class.ts";

/** What the client's logger is told when a quota of the brokers holds it back. */
export const THROTTLED = "throttled";
/** Less is not felt: an append may take three seconds. */
const TOLD_FROM_MS = 500;
/** More than brokers say unless their quotas are far too low; a broker enforces those itself. */
const BELIEVED_MS = 30_000;

interface SentRequest {
  readonly requestTimeout: number;
  timeoutRequest(): void;
}

interface RequestQueue {
  readonly broker: string;
  readonly logger: { warn(message: string, fields: object): void };
  maybeThrottle: (this: RequestQueue, throttleMs: number | null) => void;
  readonly pending: readonly unknown[];
  /** Wall clock, ms. */
  throttledUntil: number;
  canSendSocketRequestImmediately: (this: RequestQueue) => boolean;
  throttleCheckTimeoutId: NodeJS.Timeout | null;
  readonly inflight: ReadonlyMap<number, SentRequest>;
  readonly requestTimeout: number;
  readonly enforceRequestTimeout: boolean;
  requestTimeoutIntervalId: NodeJS.Timeout;
  isConnected(): boolean;
  destroy(): void;
  scheduleRequestTimeoutCheck: (this: RequestQueue) => void;
  scheduleCheckPendingRequests: (this: RequestQueue) => void;
}

/**
 * Works around kafkajs issue 1751: the request queue of every connection re-arms a timer with a negative delay (hence 1 ms) forever,
 * even when nothing waits. Here it re-arms only while a request waits or the broker throttles, which is told of.
 *
 * How long the broker throttles is counted by the wall clock: set back, the connection sent nothing until it had caught up. Here it
 * waits no longer than it was ever told to, and half a minute at most: an answer whose bytes were damaged on their way says days,
 * and the broker was asked for nothing more until the process ended. The age of requests was counted by the wall clock, too: set on,
 * all that were on their way had timed out at once, and set back, none ever did. Safe to call again.
 */
export function guardRequestQueue(): void {
  const prototype = classToGuard("network/requestQueue/index.js") as RequestQueue | null;
  if (prototype === null) return;
  const longestMs = new WeakMap<RequestQueue, number>();
  const limitWait = (queue: RequestQueue): void => {
    const latestMs = Date.now() + (longestMs.get(queue) ?? 0);
    queue.throttledUntil = Math.min(queue.throttledUntil, latestMs);
  };
  const { canSendSocketRequestImmediately } = prototype;
  prototype.canSendSocketRequestImmediately = function guarded(this: RequestQueue) {
    limitWait(this);
    return canSendSocketRequestImmediately.call(this);
  };
  const original = prototype.scheduleCheckPendingRequests;
  prototype.scheduleCheckPendingRequests = function guarded(this: RequestQueue) {
    limitWait(this);
    if (this.pending.length > 0 || this.throttledUntil > Date.now())
      Reflect.apply(original, this, []);
  };
  prototype.scheduleRequestTimeoutCheck = checkTimeouts;
  const { maybeThrottle } = prototype;
  prototype.maybeThrottle = function guarded(this: RequestQueue, throttleMs) {
    const believedMs = Math.min(throttleMs ?? 0, BELIEVED_MS);
    longestMs.set(this, Math.max(believedMs, longestMs.get(this) ?? 0));
    maybeThrottle.call(this, believedMs);
    if (throttleMs === null || throttleMs < TOLD_FROM_MS) return;
    const { broker, logger: client } = this;
    client.warn(THROTTLED, { broker, throttleMs });
  };
}

/** Goes by a steady clock, from the first check that sees a request: one comes every 100 ms, as in kafkajs. */
function checkTimeouts(this: RequestQueue): void {
  if (!this.enforceRequestTimeout) return;
  this.destroy();
  const seenAtMs = new WeakMap<SentRequest, number>();
  const check = (): void => {
    const nowMs = performance.now();
    for (const request of this.inflight.values()) {
      const sinceMs = seenAtMs.get(request);
      if (sinceMs === undefined) seenAtMs.set(request, nowMs);
      else if (nowMs - sinceMs > request.requestTimeout) request.timeoutRequest();
    }
    if (!this.isConnected()) this.destroy();
  };
  this.requestTimeoutIntervalId = setInterval(check, Math.min(this.requestTimeout, 100));
}
