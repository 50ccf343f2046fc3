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
  readonly throttledUntil: number;
  throttleCheckTimeoutId: NodeJS.Timeout | null;
  scheduleCheckPendingRequests: (this: RequestQueue) => void;
}

/**
 * Works around kafkajs issue 1751: the request queue of every connection re-arms a timer with a negative delay (hence 1 ms) forever,
 * even when nothing waits. Here it re-arms only while a request waits or the broker throttles, which is told of. Safe to call again.
 */
export function guardRequestQueue(): void {
  const prototype = classToGuard("network/requestQueue/index.js") as RequestQueue | null;
  if (prototype === null) return;
  const original = prototype.scheduleCheckPendingRequests;
  prototype.scheduleCheckPendingRequests = function guarded(this: RequestQueue) {
    if (this.pending.length > 0 || this.throttledUntil > Date.now())
      Reflect.apply(original, this, []);
  };
  const { maybeThrottle } = prototype;
  prototype.maybeThrottle = function guarded(this: RequestQueue, throttleMs) {
    maybeThrottle.call(this, throttleMs);
    if (throttleMs === null || throttleMs < TOLD_FROM_MS) return;
    const { broker, logger: client } = this;
    client.warn(THROTTLED, { broker, throttleMs });
  };
}
