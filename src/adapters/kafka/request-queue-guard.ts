import { createRequire } from "node:module";

interface RequestQueue {
  readonly pending: readonly unknown[];
  readonly throttledUntil: number;
  throttleCheckTimeoutId: NodeJS.Timeout | null;
  scheduleCheckPendingRequests: (this: RequestQueue) => void;
}

const GUARDED = Symbol.for("webhook-relay.kafkajs-1751");

/**
 * kafkajs issue 1751: the request queue of every connection re-arms a timer with a negative delay (hence 1 ms) for ever,
 * even when nothing waits. This lets it re-arm only while a request waits or the broker throttles. Safe to call again.
 */
export function guardRequestQueue(): void {
  const load = createRequire(import.meta.url);
  const { prototype } = load("kafkajs/src/network/requestQueue/index.js") as {
    prototype: RequestQueue & { [GUARDED]?: true };
  };
  if (prototype[GUARDED] === true) return;
  const original = prototype.scheduleCheckPendingRequests;
  prototype.scheduleCheckPendingRequests = function guarded(this: RequestQueue) {
    if (this.pending.length > 0 || this.throttledUntil > Date.now())
      Reflect.apply(original, this, []);
  };
  prototype[GUARDED] = true;
}
