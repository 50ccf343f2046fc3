import { createRequire } from "node:module";
import { guardBrokerPool } from "../../src/adapters/kafka/guards/broker-pool-guard.ts";

export interface FakeBroker {
  readonly nodeId: number;
  readonly connectionPool: {
    readonly host: string;
    readonly port: number;
    readonly pool: readonly object[];
  };
  versions: object | null;
  isConnected: () => boolean;
  listOffsets?: (asked: { readonly topics: readonly object[] }) => Promise<object>;
}

/** Makes kafkajs's own pool of brokers 1 and 2; `connect` gets a broker's number, and throws to fail the connection. */
export function fakeBrokerPool(connect: (nodeId: string) => void) {
  guardBrokerPool();
  const BrokerPool = createRequire(import.meta.url)("kafkajs/src/cluster/brokerPool.js");
  const pool = Object.create(BrokerPool.prototype);
  const brokers: Record<string, FakeBroker> = {};
  for (const nodeId of [1, 2])
    brokers[nodeId] = {
      nodeId,
      connectionPool: { host: `b${nodeId}`, port: 9_092, pool: [{}, {}] },
      versions: {},
      isConnected: () => false,
    };
  return Object.assign(pool, {
    brokers,
    seedBroker: { nodeId: null, versions: {} },
    metadata: { brokers: [{ nodeId: 1 }, { nodeId: 2 }] },
    metadataExpireAt: 1,
    connectBroker: async ({ nodeId }: FakeBroker) => connect(String(nodeId)),
  });
}
