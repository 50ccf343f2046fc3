import { randomBytes } from "node:crypto";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { freePorts } from "./stores/free-port.ts";
import type { Client } from "../../src/client/client.ts";
import { startEmbeddedClickHouse } from "../../src/embedded/chdb/start-embedded-clickhouse.ts";
import { makeRelayProcess, type RelayProcess } from "./relay-process.ts";
import { makeSilentLogger } from "./silent-logger.ts";
import { freshPrefix } from "./stores/kafka-harness.ts";
import { startLocalKafka, type LocalKafka, type LocalKafkaOptions } from "./stores/kafka-local.ts";
import { startPostgres } from "./stores/postgres.ts";
import { waitFor } from "./wait-for.ts";

export interface ClusterStores extends AsyncDisposable {
  readonly kafka: LocalKafka;
  readonly databaseUrl: string;
  readonly clickhouseUrl: string;
}

/** Starts three brokers that can be killed, PostgreSQL, and ClickHouse over HTTP. @throws {Error} that says what is missing */
export async function startClusterStores(kafkaOptions?: LocalKafkaOptions): Promise<ClusterStores> {
  await using stack = new AsyncDisposableStackLike();
  const dataDir = await mkdtemp(join(tmpdir(), "relay-cluster-"));
  stack.defer(() => rm(dataDir, { recursive: true, force: true, maxRetries: 20 }));
  const [kafka, postgres, clickhouse] = await Promise.allSettled([
    startLocalKafka(3, {}, kafkaOptions).then((store) => stack.use(store)),
    startPostgres().then((store) => stack.use(store)),
    startEmbeddedClickHouse({ dataDir, logger: makeSilentLogger() }).then((store) =>
      stack.use(store),
    ),
  ]);
  // All have settled: if one failed to start, those that did start are ended.
  if (kafka.status === "rejected") throw kafka.reason as Error;
  if (postgres.status === "rejected") throw postgres.reason as Error;
  if (clickhouse.status === "rejected") throw clickhouse.reason as Error;
  const owned = stack.move();
  return {
    kafka: kafka.value,
    databaseUrl: postgres.value.url,
    clickhouseUrl: clickhouse.value.url,
    [Symbol.asyncDispose]: () => owned[Symbol.asyncDispose](),
  };
}

/** Stands in for `AsyncDisposableStack`, which needs Node 24. */
class AsyncDisposableStackLike implements AsyncDisposable {
  #undo: (() => Promise<unknown>)[] = [];

  use<T extends AsyncDisposable>(resource: T): T {
    this.#undo.push(async () => resource[Symbol.asyncDispose]());
    return resource;
  }

  defer(undo: () => Promise<unknown>): void {
    this.#undo.push(undo);
  }

  move(): AsyncDisposable {
    const moved = new AsyncDisposableStackLike();
    moved.#undo = this.#undo;
    this.#undo = [];
    return moved;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const undo of this.#undo.splice(0).toReversed()) await undo();
  }
}

export type NodeName = "ingest-1" | "ingest-2" | "delivery-1" | "delivery-2" | "api" | "api-2";
export const NODE_NAMES: readonly NodeName[] = [
  "ingest-1",
  "ingest-2",
  "delivery-1",
  "delivery-2",
  "api",
];
/** Two of each role. */
export const PAIRED_NODE_NAMES: readonly NodeName[] = [...NODE_NAMES, "api-2"];

export interface Cluster extends AsyncDisposable {
  readonly nodes: ReadonlyMap<NodeName, RelayProcess>;
  readonly client: Client;
  node(name: NodeName): RelayProcess;
  /** Starts a process again after it was ended, and waits until it is ready. */
  restart(name: NodeName): Promise<void>;
  /** Sets a variable for the processes started from now on. */
  setEnv(name: string, value: string): void;
  /** Counts warnings and errors in the nodes' logs by node and message. */
  complaints(): Readonly<Record<string, number>>;
}

export type ClusterAddresses = Pick<ClusterStores, "databaseUrl" | "clickhouseUrl"> & {
  readonly kafka: { readonly brokers: readonly string[] };
};

/** Starts two ingest processes on one shared port, two delivery processes and one API process, or two. */
export async function startCluster(
  stores: ClusterAddresses,
  extra: Readonly<Record<string, string>> = {},
  names: readonly NodeName[] = NODE_NAMES,
): Promise<Cluster> {
  const ingestPort = String((await freePorts(1))[0]);
  const shared = {
    KAFKA_BROKERS: stores.kafka.brokers.join(","),
    DATABASE_URL: stores.databaseUrl,
    CLICKHOUSE_URL: stores.clickhouseUrl,
    RELAY_TOPIC_PREFIX: freshPrefix(),
    RELAY_PARTITIONS: "6",
    RELAY_ENCRYPTION_KEY: randomBytes(32).toString("base64"),
    RELAY_INGEST_PORT: ingestPort,
    RELAY_INGEST_SHARE_PORT: "true",
    RELAY_PUBLIC_INGEST_URL: `http://127.0.0.1:${ingestPort}`,
    RELAY_VERIFY_THREADS: "1",
    ...extra,
  };
  const nodes = new Map<NodeName, RelayProcess>();
  for (const name of names)
    nodes.set(name, await makeRelayProcess(shared, ["--roles", name.replace(/-\d$/, "")]));
  const node = (name: NodeName): RelayProcess => {
    const found = nodes.get(name);
    if (found === undefined) throw new Error(`no node ${name}`);
    return found;
  };
  const restart = async (name: NodeName): Promise<void> => {
    await node(name).start();
    await waitUntilReady(node(name));
  };
  const cluster: Cluster = {
    nodes,
    client: node("api").client,
    node,
    restart,
    setEnv: (name, value) => {
      for (const { env } of nodes.values()) env[name] = value;
    },
    complaints: () => countComplaints(nodes),
    [Symbol.asyncDispose]: async () => {
      await Promise.all([...nodes.values()].map((one) => one[Symbol.asyncDispose]()));
      await keepLogs(nodes, process.env["RELAY_TEST_LOGS"]);
    },
  };
  try {
    // All at once, as an orchestrator would: they create topics and tables concurrently.
    await Promise.all(names.map((name) => restart(name)));
    return cluster;
  } catch (error) {
    await cluster[Symbol.asyncDispose]();
    throw error;
  }
}

/** Keeps every process's log in a file of its own, for a look at a failed run. */
async function keepLogs(
  nodes: ReadonlyMap<NodeName, RelayProcess>,
  dir: string | undefined,
): Promise<void> {
  if (dir === undefined || dir === "") return;
  await mkdir(dir, { recursive: true });
  for (const [name, one] of nodes) await writeFile(join(dir, `${name}.log`), one.output());
}

const WARN_LEVEL = 40;

/**
 * Starts what is not running and thaws what is frozen, so that a test does not meet what an earlier one left behind, such
 * as its own first run that failed between a kill and the restart.
 */
export async function healCluster(
  { kafka }: Pick<ClusterStores, "kafka">,
  cluster: Cluster,
): Promise<void> {
  for (let broker = 1; broker <= kafka.ports.length; broker += 1) {
    kafka.thaw(broker);
    if (!kafka.isRunning(broker)) await kafka.restart(broker);
  }
  for (const node of cluster.nodes.values()) {
    if (node.isRunning()) process.kill(node.pid(), "SIGCONT");
    else await node.start();
  }
  for (const node of cluster.nodes.values()) await waitUntilReady(node);
}

async function waitUntilReady({ ports }: RelayProcess): Promise<void> {
  await waitFor(
    "readiness",
    async () => {
      try {
        return (await fetch(`http://127.0.0.1:${ports.ops}/readyz`)).ok;
      } catch {
        return false;
      }
    },
    60_000,
    50,
  );
}

function countComplaints(nodes: ReadonlyMap<NodeName, RelayProcess>): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const [name, one] of nodes)
    for (const line of one.output().split("\n")) {
      const entry = readLine(line);
      if (entry === null || (entry.level ?? 0) < WARN_LEVEL) continue;
      const label = `${name} ${entry.msg ?? ""}`;
      counts[label] = (counts[label] ?? 0) + 1;
    }
  return counts;
}

interface LogLine {
  readonly level?: number;
  readonly msg?: string;
}

function readLine(line: string): LogLine | null {
  if (!line.startsWith("{")) return null;
  try {
    return JSON.parse(line) as LogLine;
  } catch {
    return null;
  }
}
