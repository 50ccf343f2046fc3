import { classToGuard } from "./guard-class.ts";

interface ConsumerGroup {
  joinAndSync: (this: ConsumerGroup) => Promise<void>;
  fetch: (this: ConsumerGroup, nodeId: string) => Promise<readonly unknown[]>;
}

const joins = new WeakMap<ConsumerGroup, Promise<void>>();
const unjoined = new WeakSet<ConsumerGroup>();

/**
 * Two things that kafkajs gets wrong in a group of several brokers.
 *
 * A join that failed in its middle (the coordinator took it, and its answer was lost) is not tried again: only the fetchers are
 * started anew. The heartbeats go on, so the partitions stay with a member that was never told of them. With this, fetching
 * asks for the join again, as many times as the client retries; then the consumer crashes, and is started again.
 *
 * Each fetcher that meets a leader that has moved joins for itself, at the same time as the others: two assignments in one
 * generation. This shares the join that is under way, and lets nobody fetch meanwhile.
 * Safe to call again.
 */
export function guardConsumerGroup(): void {
  const prototype = classToGuard("consumer/consumerGroup.js") as ConsumerGroup | null;
  if (prototype === null) return;
  const { joinAndSync, fetch } = prototype;
  prototype.joinAndSync = function guardedJoinAndSync() {
    const current = joins.get(this);
    if (current !== undefined) return current;
    unjoined.add(this);
    const join = joinAndSync
      .call(this)
      .then(() => void unjoined.delete(this))
      .finally(() => joins.delete(this));
    joins.set(this, join);
    return join;
  };
  prototype.fetch = async function guardedFetch(nodeId) {
    await joins.get(this)?.catch(() => undefined);
    if (unjoined.has(this)) throw notJoined();
    return fetch.call(this, nodeId);
  };
}

/** By this type kafkajs joins again. */
function notJoined(): Error {
  const error = new Error("the group was not joined: its last join failed");
  return Object.assign(error, { type: "REBALANCE_IN_PROGRESS" });
}
