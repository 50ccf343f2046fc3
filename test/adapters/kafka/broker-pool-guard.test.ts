import { createRequire } from "node:module";
import { expect, test } from "vitest";
import { guardBrokerPool } from "../../../src/adapters/kafka/broker-pool-guard.ts";

const NODES = [
  { nodeId: 1, host: "one", port: 9_092, rack: null },
  { nodeId: 2, host: "two", port: 9_092, rack: null },
];

class FakeBroker {
  connected = false;
  connectionPool: { readonly host: string; readonly port: number; readonly rack: null };
  nodeId: number | null;
  /** Holds back the next answer. */
  held: Promise<void> | null = null;

  constructor(options: Pick<FakeBroker, "connectionPool"> & { readonly nodeId?: number }) {
    this.connectionPool = options.connectionPool;
    this.nodeId = options.nodeId ?? null;
  }

  isConnected() {
    return this.connected;
  }

  async connect() {
    this.connected = true;
  }

  async disconnect() {
    this.connected = false;
  }

  async metadata() {
    await this.held;
    return { brokers: NODES, topicMetadata: [] };
  }
}

function aPool() {
  const BrokerPool = createRequire(import.meta.url)("kafkajs/src/cluster/brokerPool.js");
  const logger = { namespace: () => logger, debug() {}, error() {} };
  const pool = new BrokerPool({
    connectionPoolBuilder: { build: async (address = NODES[0]) => ({ ...address }) },
    logger,
  });
  pool.createBroker = (options: ConstructorParameters<typeof FakeBroker>[0]) =>
    new FakeBroker(options);
  return pool;
}

test("regression: a seed that is lost while its metadata is asked for gives its number to nobody else", async () => {
  guardBrokerPool();
  guardBrokerPool();
  const pool = aPool();
  await pool.connect();
  await pool.refreshMetadata(["t"]);
  const [seed, other] = [pool.brokers[1] as FakeBroker, pool.brokers[2] as FakeBroker];
  await other.connect();

  // The connection to the seed breaks, the other one is asked, and a send that failed removes the seed meanwhile.
  await seed.disconnect();
  let release = () => {};
  other.held = new Promise((resolve) => (release = resolve));
  const refreshed = pool.refreshMetadata(["t"]);
  await new Promise((resolve) => setImmediate(resolve));
  pool.removeBroker(NODES[0]);
  release();
  await refreshed;

  const placed = Object.entries(pool.brokers as Record<string, FakeBroker>).map(
    ([key, { nodeId, connectionPool }]) => [key, nodeId, connectionPool.host],
  );
  expect(placed).toEqual([
    ["1", 1, "one"],
    ["2", 2, "two"],
  ]);
  expect(pool.brokers[2]).toBe(other);
});
