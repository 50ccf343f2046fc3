import { createRequire } from "node:module";
import { expect, test, vi } from "vitest";
import { guardBrokerPool } from "../../../src/adapters/kafka/guards/broker-pool-guard.ts";
import { noteAnswer } from "../../../src/adapters/kafka/guards/doubtful-leaders.ts";

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
  versions: object | null = {};
  ended = () => {};

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
    this.ended();
  }

  async metadata(topics: readonly string[]) {
    await this.held;
    const partitionMetadata = [{ leader: 1 }, { leader: topics.includes("leaderless") ? -1 : 2 }];
    return { brokers: NODES, topicMetadata: [{ topic: topics[0], partitionMetadata }] };
  }
}

function aPool(seedAt = NODES[0]) {
  const BrokerPool = createRequire(import.meta.url)("kafkajs/src/cluster/brokerPool.js");
  const logger = { namespace: () => logger, debug() {}, error() {} };
  const pool = new BrokerPool({
    connectionPoolBuilder: { build: async (address = seedAt) => ({ ...address, pool: [] }) },
    logger,
    metadataMaxAge: 30_000,
  });
  pool.createBroker = (options: ConstructorParameters<typeof FakeBroker>[0]) =>
    new FakeBroker(options);
  return pool;
}

/** Lists the key, number and host of each broker. */
function placedIn({ brokers }: { readonly brokers: Record<string, FakeBroker> }): string[] {
  return Object.entries(brokers).map(
    ([key, { nodeId, connectionPool }]) => `${key} ${nodeId} ${connectionPool.host}`,
  );
}

/** Holds back an answer of the connected seed, and replaces it by another broker, which gets its number by that answer. */
async function lostSeed(pool: ReturnType<typeof aPool>) {
  await pool.connect();
  await pool.refreshMetadata(["t"]);
  let release = () => {};
  pool.seedBroker.held = new Promise<void>((resolve) => (release = resolve));
  const refreshed: Promise<unknown> = pool.refreshMetadata(["t"]);
  await new Promise((resolve) => setImmediate(resolve));
  delete pool.brokers[1];
  const seed = new FakeBroker({ connectionPool: { host: "two", port: 9_092, rack: null } });
  seed.connected = true;
  pool.seedBroker = seed;
  return { seed, release, refreshed };
}

test("regression: a seed that is lost while its metadata is asked for gives its number to nobody else", async () => {
  guardBrokerPool();
  guardBrokerPool();
  const pool = aPool();
  await pool.connect();
  await pool.refreshMetadata(["t"]);
  const [seed, other] = [pool.brokers[1] as FakeBroker, pool.brokers[2] as FakeBroker];
  await other.connect();

  // The connection to the seed breaks, the other broker is asked, and meanwhile a failed send removes the seed.
  await seed.disconnect();
  let release = () => {};
  other.held = new Promise((resolve) => (release = resolve));
  const refreshed = pool.refreshMetadata(["t"]);
  await new Promise((resolve) => setImmediate(resolve));
  pool.removeBroker(NODES[0]);
  release();
  await refreshed;

  expect(placedIn(pool)).toEqual(["1 1 one", "2 2 two"]);
  expect(pool.brokers[2]).toBe(other);
});

test("a new seed that got the number of the lost one gives it back and goes on as the seed", async () => {
  guardBrokerPool();
  const pool = aPool();
  const { seed, release, refreshed } = await lostSeed(pool);
  release();
  await refreshed;
  expect(placedIn(pool)).toEqual(["1 1 one", "2 2 two"]);
  expect([seed.nodeId, seed.connected]).toEqual([null, true]);
});

test("regression: who stands in another's place goes also when the rest of the answer fails, and its connection with it", async () => {
  guardBrokerPool();
  const pool = aPool();
  const { seed, release, refreshed } = await lostSeed(pool);
  const gone = new FakeBroker({ connectionPool: { host: "three", port: 9_092, rack: null } });
  pool.brokers[3] = gone;
  gone.ended = () => {
    pool.seedBroker = pool.brokers[2];
    throw new Error("not ended");
  };
  release();
  await expect(refreshed).rejects.toThrow("not ended");
  expect(placedIn(pool)).toEqual(["2 2 two", "3 null three"]);
  expect(seed.connected).toBe(false);
});

test("regression: when all brokers are lost while an answer is on its way, the last one remains to be asked: nothing could be asked ever after", async () => {
  guardBrokerPool();
  const pool = aPool(NODES[1]);
  await pool.connect();
  await pool.refreshMetadata(["t"]);
  let release = () => {};
  pool.brokers[2].held = new Promise<void>((resolve) => (release = resolve));
  const refreshed = pool.refreshMetadata(["t"]).catch(() => {});
  await new Promise((resolve) => setImmediate(resolve));
  for (const node of NODES) pool.removeBroker(node);
  // Its API versions count as unknown again: otherwise a frozen broker would go unnoticed.
  expect(pool.seedBroker.versions).toBeNull();
  release();
  await refreshed;
  await pool.refreshMetadata(["t"]);
  expect(placedIn(pool)).toEqual(["1 1 one", "2 2 two"]);
});

test("while a partition has no leader, it is soon looked up again", async () => {
  guardBrokerPool();
  const pool = aPool();
  const expiresInMs = () => pool.metadataExpireAt - Date.now();
  await pool.connect();
  await pool.refreshMetadata(["t"]);
  expect(expiresInMs()).toBeGreaterThan(1_000);
  await pool.refreshMetadata(["leaderless"]);
  expect(expiresInMs()).toBeLessThanOrEqual(1_000);
  await pool.refreshMetadata(["t"]);
  expect(expiresInMs()).toBeGreaterThan(1_000);
});

test("regression: metadata is asked for again in time when the wall clock is set back: what it said stood until that had caught up", async () => {
  guardBrokerPool();
  const pool = aPool();
  await pool.connect();
  await pool.refreshMetadata(["t"]);
  vi.useFakeTimers({ now: Date.now() - 86_400_000, toFake: ["Date"] });
  try {
    const known = pool.metadata;
    await pool.refreshMetadataIfNecessary(["t"]);
    expect(pool.metadata).toBe(known);
    vi.setSystemTime(Date.now() + 30_001);
    await pool.refreshMetadataIfNecessary(["t"]);
    expect(pool.metadata).not.toBe(known);
  } finally {
    vi.useRealTimers();
  }
});

test("regression: a leader whose replicas do not confirm makes others be asked who leads: one that was cut off from the controller was written to, in vain, for as long as it was cut off", async () => {
  guardBrokerPool();
  const pool = aPool();
  await pool.connect();
  await pool.refreshMetadata(["t"]);
  const brokers: readonly FakeBroker[] = [pool.brokers[1], pool.brokers[2]];
  const asked: (number | null)[] = [];
  for (const broker of brokers) {
    const metadata = broker.metadata.bind(broker);
    await broker.connect();
    broker.metadata = (topics) => {
      asked.push(broker.nodeId);
      return metadata(topics);
    };
  }
  const answer = (errorCode: number) => ({
    topics: [{ partitions: [{ partition: 0, errorCode }] }],
  });
  await pool.refreshMetadataIfNecessary(["t"]);
  expect(asked).toEqual([]);
  for (let times = 1; times <= 10; times += 1) {
    noteAnswer(brokers[0]!, answer(7));
    await pool.refreshMetadataIfNecessary(["t"]);
    await pool.refreshMetadataIfNecessary(["t"]);
    expect(asked).toEqual(Array.from({ length: times }, () => 2));
  }
  await brokers[1]!.disconnect();
  await pool.refreshMetadata(["t"]);
  expect(asked.at(-1)).toBe(2);
});
