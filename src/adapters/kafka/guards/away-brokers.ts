import { hasFallenSilent } from "./connection-guard.ts";
import { isDoubtful } from "./doubtful-leaders.ts";
import { loadInternal } from "./guard-class.ts";

interface Address {
  readonly host: string;
  readonly port: number;
}
interface Broker {
  readonly connectionPool: Address & { readonly pool: readonly object[] };
  /** Its API versions; with null, the next connect asks for them. */
  versions: object | null;
  isConnected(): boolean;
}
interface Wanted {
  readonly nodeId: string | number;
}
type Ask = (found: { readonly nodeId: string; readonly broker: Broker }) => Promise<unknown>;
interface BrokerPool {
  readonly brokers: Readonly<Record<string, Broker>>;
  readonly metadata: { readonly brokers: readonly { readonly nodeId: number }[] } | null;
  metadataExpireAt: number | null;
  findBroker: (this: BrokerPool, wanted: Wanted) => Promise<Broker>;
  removeBroker: (this: BrokerPool, address: Address) => void;
  withBroker: (this: BrokerPool, ask: Ask) => Promise<unknown>;
  findConnectedBroker: (this: BrokerPool) => Promise<Broker>;
  /** Connects the seed. */
  connect(): Promise<void>;
  readonly seedBroker: Broker;
}
interface Doubts {
  /** By number of a broker, the timer of its next probe. */
  readonly away: Map<string, NodeJS.Timeout>;
  /** Those whose connection was lost, until they state their API versions again. */
  readonly lost: Set<string>;
}

/** Short, since it may just have been this process that stood still. */
const FIRST_PROBE_MS = 100;
const PROBE_EVERY_MS = 1_000;
/** Every way in which connecting can fail: refused, closed, or not answered. */
const NOT_CONNECTED: ReadonlySet<string> = new Set([
  "KafkaJSConnectionError",
  "KafkaJSConnectionClosedError",
  "KafkaJSRequestTimeoutError",
  "KafkaJSLockTimeout",
]);

const doubts = new WeakMap<object, Doubts>();

/** Returns whether a broker is left out for now: it could not be reached, or left a request unanswered, and is not connected since. */
export function isAway(pool: Pick<BrokerPool, "brokers">, nodeId: string | number): boolean {
  const isConnected = pool.brokers[nodeId]?.isConnected() === true;
  return !isConnected && doubtsOf(pool).away.has(String(nodeId));
}

export function awayCount(pool: object): number {
  return doubtsOf(pool).away.size;
}

/**
 * Remembers which brokers are away. kafkajs connects to a broker whenever it has something to ask of it, and the caller waits: for
 * seconds, again and again, if the broker accepts connections and answers nothing (frozen, or a proxy with nothing behind it). This tries
 * each one that is away once a second, beside the work, until it states its API versions or has left the cluster; one whose connection
 * was lost has to state them first as well. What any broker can answer is asked of those that are away last.
 * `prototype` is that of kafkajs's pool of brokers.
 */
export function rememberAwayBrokers(prototype: object): void {
  const guarded = prototype as BrokerPool;
  const { findBroker, removeBroker, withBroker } = guarded;
  const shuffle = loadInternal("utils/shuffle.js") as (nodeIds: string[]) => string[];

  function probeAfter(delayMs: number, pool: BrokerPool, nodeId: string): void {
    const { away } = doubtsOf(pool);
    const timer = setTimeout(() => {
      // The client has ended, or the broker has left the cluster.
      if (pool.metadata?.brokers.some((broker) => String(broker.nodeId) === nodeId) !== true)
        away.delete(nodeId);
      else
        pool.findBroker({ nodeId }).catch(() => {
          // Another broker may now lead what it led.
          pool.metadataExpireAt = null;
          probeAfter(PROBE_EVERY_MS, pool, nodeId);
        });
    }, delayMs);
    timer.unref();
    away.set(nodeId, timer);
  }

  function awayLast(pool: BrokerPool): string[] {
    const nodeIds = shuffle(Object.keys(pool.brokers));
    const last = nodeIds.filter((nodeId) => isAway(pool, nodeId));
    return [...nodeIds.filter((nodeId) => !last.includes(nodeId)), ...last];
  }

  guarded.findBroker = async function guardedFindBroker(wanted) {
    const nodeId = String(wanted.nodeId);
    const { away, lost } = doubtsOf(this);
    const asked = this.brokers[nodeId];
    const isDoubted = away.has(nodeId) || lost.has(nodeId);
    // That it accepts a connection says little: it is asked for its API versions.
    if (asked?.isConnected() === false && (isDoubted || leftUnanswered(asked)))
      asked.versions = null;
    try {
      const broker = await findBroker.call(this, wanted);
      clearTimeout(away.get(nodeId));
      away.delete(nodeId);
      lost.delete(nodeId);
      return broker;
    } catch (error) {
      if (NOT_CONNECTED.has((error as Error).name) && !away.has(nodeId))
        probeAfter(FIRST_PROBE_MS, this, nodeId);
      throw error;
    }
  };
  guarded.removeBroker = function guardedRemoveBroker(address) {
    const removed = Object.entries(this.brokers).find(
      ([, { connectionPool }]) =>
        connectionPool.host === address.host && connectionPool.port === address.port,
    );
    removeBroker.call(this, address);
    if (removed === undefined) return;
    const [nodeId, broker] = removed;
    const { away, lost } = doubtsOf(this);
    lost.add(nodeId);
    if (leftUnanswered(broker) && !away.has(nodeId)) probeAfter(FIRST_PROBE_MS, this, nodeId);
  };
  guarded.withBroker = async function guardedWithBroker(ask) {
    const nodeIds = awayLast(this);
    if (nodeIds.length === 0) return withBroker.call(this, ask);
    let failure: unknown = null;
    for (const nodeId of nodeIds) {
      let broker: Broker;
      try {
        broker = await this.findBroker({ nodeId });
      } catch (error) {
        failure = error;
        continue;
      }
      try {
        return await ask({ nodeId, broker });
      } catch {
        // Another may know better.
      }
    }
    if (failure !== null) throw failure;
    return null;
  };
  guarded.findConnectedBroker = async function guardedFindConnected() {
    const nodeIds = awayLast(this);
    const reliable = nodeIds.filter(
      (nodeId) => !isAway(this, nodeId) && !isDoubtful(this.brokers[nodeId]!),
    );
    const connected = reliable.find((nodeId) => this.brokers[nodeId]!.isConnected());
    for (const nodeId of connected === undefined ? new Set([...reliable, ...nodeIds]) : [connected])
      try {
        return await this.findBroker({ nodeId });
      } catch {
        // Try the next one.
      }
    await this.connect();
    return this.seedBroker;
  };
}

function leftUnanswered({ connectionPool }: Broker): boolean {
  return connectionPool.pool.some(hasFallenSilent);
}

function doubtsOf(pool: object): Doubts {
  let known = doubts.get(pool);
  if (known === undefined) doubts.set(pool, (known = { away: new Map(), lost: new Set() }));
  return known;
}
