import { classToGuard } from "./guard-class.ts";

interface RequestQueue {
  readonly pending: readonly unknown[];
  readonly throttledUntil: number;
  throttleCheckTimeoutId: NodeJS.Timeout | null;
  scheduleCheckPendingRequests: (this: RequestQueue) => void;
}

/**
 * Works around kafkajs issue 1751: the request queue of every connection re-arms a timer with a negative delay (hence 1 ms) forever,
 * even when nothing waits. Here it re-arms only while a request waits or the broker throttles. Safe to call again.
 */
export function guardRequestQueue(): void {
  const prototype = classToGuard("network/requestQueue/index.js") as RequestQueue | null;
  if (prototype === null) return;
  const original = prototype.scheduleCheckPendingRequests;
  prototype.scheduleCheckPendingRequests = function guarded(this: RequestQueue) {
    if (this.pending.length > 0 || this.throttledUntil > Date.now())
      Reflect.apply(original, this, []);
  };
}
