import { classToGuard } from "./guard-class.ts";

interface Address {
  readonly host: string;
  readonly port: number;
}
interface Broker {
  nodeId: number | null;
  readonly connectionPool: Address;
}
interface BrokerPool {
  brokers: Record<string, Broker>;
  readonly metadata: {
    readonly brokers: readonly (Address & { readonly nodeId: number })[];
  } | null;
  metadataExpireAt: number | null;
  refreshMetadata: (this: BrokerPool, topics: readonly string[]) => Promise<unknown>;
}

/**
 * kafkajs remembers the address of its seed before it asks for the metadata, and the seed itself when the answer is there. When the
 * connection to the seed was lost between the two, it has another one by then, which gets the number of the lost broker
 * and keeps it: what is led by that broker is sent to the wrong one, and what the other one leads is put into no request at all,
 * which counts as a success, until the process ends. This gives each broker its own number back, and makes
 * one anew that stands for another's address. Safe to call again.
 */
export function guardBrokerPool(): void {
  const prototype = classToGuard("cluster/brokerPool.js") as BrokerPool | null;
  if (prototype === null) return;
  const { refreshMetadata } = prototype;
  prototype.refreshMetadata = async function guardedRefreshMetadata(this: BrokerPool, topics) {
    await refreshMetadata.call(this, topics);
    if (!letGoOfMisplaced(this)) return;
    await refreshMetadata.call(this, topics);
    letGoOfMisplaced(this);
  };
}

/** @returns whether there was one */
function letGoOfMisplaced(pool: BrokerPool): boolean {
  let found = false;
  for (const { nodeId, host, port } of pool.metadata?.brokers ?? []) {
    const broker = pool.brokers[nodeId];
    if (broker === undefined) continue;
    if (broker.connectionPool.host !== host || broker.connectionPool.port !== port) {
      delete pool.brokers[nodeId];
      pool.metadataExpireAt = null;
      found = true;
    } else broker.nodeId = nodeId;
  }
  return found;
}
