import { classToGuard } from "./guard-class.ts";

interface Runner {
  readonly running: boolean;
  fetch: (nodeId: string) => Promise<readonly unknown[]>;
}

/**
 * Ends a stopped consumer's fetchers. kafkajs makes new ones when the set of brokers changes, even if the consumer was just told to stop.
 * Those ask a runner that does not run, get nothing at once, and ask again: an endless loop that never lets the event loop turn.
 * This makes such a fetch fail, which ends the fetchers, and then the consumer. Safe to call again.
 */
export function guardStoppedRunner(): void {
  const prototype = classToGuard("consumer/runner.js") as Runner | null;
  if (prototype === null) return;
  const original = prototype.fetch;
  prototype.fetch = async function guarded(this: Runner, nodeId) {
    if (!this.running) throw new Error("the consumer was stopped");
    return original.call(this, nodeId);
  };
}
