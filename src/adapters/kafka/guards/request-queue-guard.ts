import { classToGuard } from "./guard-class.ts";

/** What the client's logger is told when a quota of the brokers holds it back. */
export const THROTTLED = "throttled";
/** Less is not felt: an append may take three seconds. */
const TOLD_FROM_MS = 500;

interface RequestQueue {
  readonly broker: string;
  readonly logger: { warn(message: string, fields: object): void };
  maybeThrottle: (this: RequestQueue, throttleMs: number | null) => void;
  readonly pending: readonly unknown[];
  /** Wall clock, ms. */
  throttledUntil: number;
  canSendSocketRequestImmediately: (this: RequestQueue) => boolean;
  throttleCheckTimeoutId: NodeJS.Timeout | null;
  scheduleCheckPendingRequests: (this: RequestQueue) => void;
}

/**
 * Works around kafkajs issue 1751: the request queue of every connection re-arms a timer with a negative delay (hence 1 ms) forever,
 * even when nothing waits. Here it re-arms only while a request waits or the broker throttles, which is told of.
 *
 * How long the broker throttles is counted by the wall clock: set back, the connection sent nothing until it had caught up. Here it
 * waits no longer than it was ever told to. Safe to call again.
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
  const { maybeThrottle } = prototype;
  prototype.maybeThrottle = function guarded(this: RequestQueue, throttleMs) {
    longestMs.set(this, Math.max(throttleMs ?? 0, longestMs.get(this) ?? 0));
    maybeThrottle.call(this, throttleMs);
    if (throttleMs === null || throttleMs < TOLD_FROM_MS) return;
    const { broker, logger: client } = this;
    client.warn(THROTTLED, { broker, throttleMs });
  };
}
