import { createRequire } from "node:module";

interface Runner {
  readonly running: boolean;
  readonly fetch: (nodeId: string) => Promise<readonly unknown[]>;
}

const GUARDED = Symbol.for("webhook-relay.kafkajs-stopped-runner");

/**
 * kafkajs makes new fetchers when the set of brokers changes, also when the consumer was told to stop in that moment.
 * Those ask a runner that does not run, get nothing at once, and ask again: a loop without a turn of the event loop, for
 * ever. This makes such a fetch fail, which ends the fetchers, and then the consumer. Safe to call again.
 */
export function guardStoppedRunner(): void {
  const load = createRequire(import.meta.url);
  const { prototype } = load("kafkajs/src/consumer/runner.js") as {
    prototype: { fetch: Runner["fetch"]; [GUARDED]?: true };
  };
  if (prototype[GUARDED] === true) return;
  const original = prototype.fetch;
  prototype.fetch = async function guarded(this: Runner, nodeId) {
    if (!this.running) throw new Error("the consumer was stopped");
    return original.call(this, nodeId);
  };
  prototype[GUARDED] = true;
}
