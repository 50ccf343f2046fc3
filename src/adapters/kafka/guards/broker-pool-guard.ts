import { rememberAwayBrokers } from "./away-brokers.ts";
import { classToGuard } from "./guard-class.ts";

interface Address {
  readonly host: string;
  readonly port: number;
}
interface Broker {
  nodeId: number | null;
  /** What it can do; null: it is asked at the next connect. */
  versions: object | null;
  readonly connectionPool: Address;
  disconnect(): Promise<unknown>;
}
interface BrokerPool {
  brokers: Record<string, Broker>;
  seedBroker: Broker | undefined;
  readonly metadata: {
    readonly brokers: readonly (Address & { readonly nodeId: number })[];
    readonly topicMetadata: readonly {
      readonly partitionMetadata: readonly { readonly leader: number }[];
    }[];
  } | null;
  metadataExpireAt: number | null;
  /** With the next address of the list. Connects nothing yet. */
  createSeedBroker(): Promise<void>;
}
interface BrokerPoolMethods {
  refreshMetadata: (this: BrokerPool, topics: readonly string[]) => Promise<unknown>;
  removeBroker: (this: BrokerPool, address: Address) => void;
  disconnect: (this: BrokerPool) => Promise<void>;
}

/** While a partition has no leader, it is looked up so often whether there is one by now. */
const LEADERLESS_MAX_AGE_MS = 1_000;

/**
 * kafkajs remembers the address of its seed before it asks for the metadata, and the seed itself when the answer is there. When the
 * connection to the seed was lost between the two, it has another one by then, which gets the number of the lost broker
 * and keeps it: what is led by that broker is sent to the wrong one, and what the other one leads is put into no request at all,
 * which counts as a success, until the process ends. This gives each broker its own number back, and makes
 * one anew that stands for another's address.
 *
 * It also has no seed any more when all brokers were removed: if some come back with an answer that was on its way, nothing
 * can be asked ever after. And it begins again with the seed it ended with, however often: one that is frozen is not even
 * asked what it can do, which is known, so that nobody notices that it does not answer. Here the last one removed
 * remains the seed, and is asked anew; what was disconnected begins with the next of the list. Brokers that are away are
 * remembered. Safe to call again.
 */
export function guardBrokerPool(): void {
  const prototype = classToGuard("cluster/brokerPool.js") as BrokerPoolMethods | null;
  if (prototype === null) return;
  const { refreshMetadata, removeBroker, disconnect } = prototype;
  const refresh = async (pool: BrokerPool, topics: readonly string[]): Promise<boolean> => {
    let found = false;
    try {
      await refreshMetadata.call(pool, topics);
    } finally {
      found = letGoOfMisplaced(pool);
    }
    return found;
  };
  prototype.refreshMetadata = async function guardedRefreshMetadata(this: BrokerPool, topics) {
    if (await refresh(this, topics)) await refresh(this, topics);
    if (this.metadataExpireAt !== null && hasLeaderless(this))
      this.metadataExpireAt = Math.min(this.metadataExpireAt, Date.now() + LEADERLESS_MAX_AGE_MS);
  };
  prototype.removeBroker = function guardedRemoveBroker(this: BrokerPool, address) {
    const { seedBroker } = this;
    removeBroker.call(this, address);
    if (this.seedBroker !== undefined || seedBroker === undefined) return;
    this.seedBroker = seedBroker;
    seedBroker.versions = null;
  };
  prototype.disconnect = async function guardedDisconnect(this: BrokerPool) {
    await disconnect.call(this);
    await this.createSeedBroker();
  };
  rememberAwayBrokers(prototype);
}

function hasLeaderless({ metadata }: BrokerPool): boolean {
  return (metadata?.topicMetadata ?? []).some(({ partitionMetadata }) =>
    partitionMetadata.some(({ leader }) => leader < 0),
  );
}

/** @returns whether there was one */
function letGoOfMisplaced(pool: BrokerPool): boolean {
  const misplaced: Broker[] = [];
  for (const { nodeId, host, port } of pool.metadata?.brokers ?? []) {
    const broker = pool.brokers[nodeId];
    if (broker === undefined) continue;
    if (broker.connectionPool.host !== host || broker.connectionPool.port !== port) {
      delete pool.brokers[nodeId];
      pool.metadataExpireAt = null;
      misplaced.push(broker);
    } else broker.nodeId = nodeId;
  }
  const placed = new Set(Object.values(pool.brokers));
  for (const broker of misplaced) {
    if (placed.has(broker)) continue;
    // As a seed it may go on, but it is not the one of that number.
    broker.nodeId = null;
    if (broker !== pool.seedBroker) void broker.disconnect();
  }
  return misplaced.length > 0;
}
