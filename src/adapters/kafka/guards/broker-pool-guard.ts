import { rememberAwayBrokers } from "./away-brokers.ts";
import { takeDoubts } from "./doubtful-leaders.ts";
import { classToGuard } from "./guard-class.ts";

interface Address {
  readonly host: string;
  readonly port: number;
}
interface Broker {
  nodeId: number | null;
  /** Its API versions; with null, the next connect asks for them. */
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
  /** Wall clock, ms. */
  metadataExpireAt: number | null;
  readonly metadataMaxAge: number;
  /** Takes the next address of the list. Connects nothing yet. */
  createSeedBroker(): Promise<void>;
}
interface BrokerPoolMethods {
  refreshMetadata: (this: BrokerPool, topics: readonly string[]) => Promise<unknown>;
  refreshMetadataIfNecessary: (this: BrokerPool, topics: readonly string[]) => Promise<unknown>;
  removeBroker: (this: BrokerPool, address: Address) => void;
  disconnect: (this: BrokerPool) => Promise<void>;
}

/** How often a new leader is looked up while a partition has none. */
const LEADERLESS_MAX_AGE_MS = 1_000;

/**
 * Repairs the pool of brokers. kafkajs remembers the address of its seed before it asks for the metadata, and the seed itself when the
 * answer arrives. If the connection to the seed was lost in between, it has another seed by then, which gets the number of the lost
 * broker and keeps it: what that broker leads is sent to the wrong one, and what the other one leads goes into no request at all,
 * which counts as a success, until the process ends. This gives each broker its own number back, and replaces one that stands for
 * another's address.
 *
 * It also has no seed left once all brokers were removed: if some come back with an answer that was on its way, nothing can be asked
 * ever again. And it always begins with the seed it ended with: one that is frozen is not even asked for its API versions, which are
 * known, so nothing notices that it does not answer. Here the last one removed remains the seed, and is asked for them again; a pool
 * that was disconnected begins with the next of the list. Brokers that are away are remembered.
 *
 * It asks who leads what only when it is told of another leader: one that does not know is never left. Here a leader whose replicas do
 * not confirm makes it ask, another broker where there is one.
 *
 * It goes by the wall clock in how old metadata is: here it is asked for in time also after that was set back. Safe to call again.
 */
export function guardBrokerPool(): void {
  const prototype = classToGuard("cluster/brokerPool.js") as BrokerPoolMethods | null;
  if (prototype === null) return;
  const { refreshMetadata, refreshMetadataIfNecessary, removeBroker, disconnect } = prototype;
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
  prototype.refreshMetadataIfNecessary = function guardedRefreshIfNecessary(
    this: BrokerPool,
    topics,
  ) {
    if (takeDoubts(Object.values(this.brokers))) this.metadataExpireAt = null;
    if (this.metadataExpireAt !== null)
      this.metadataExpireAt = Math.min(this.metadataExpireAt, Date.now() + this.metadataMaxAge);
    return refreshMetadataIfNecessary.call(this, topics);
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

/** Removes brokers that stand for another's address. @returns whether there were any */
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
    // As a seed it may go on, but not under that number.
    broker.nodeId = null;
    if (broker !== pool.seedBroker) void broker.disconnect();
  }
  return misplaced.length > 0;
}
