import { freePorts } from "../../support/stores/free-port.ts";
import {
  PAIRED_NODE_NAMES,
  healCluster,
  startCluster,
  startClusterStores,
  type Cluster,
  type ClusterStores,
  type NodeName,
} from "../../support/cluster.ts";
import { GITHUB_SECRET } from "../../support/github-webhook.ts";
import type { DestinationUnderTest } from "./ledgers.ts";
import { startLedgerReceiverProcess, type LedgerReceiverProcess } from "./ledger-receiver.ts";
import type { SeededRandom } from "./random.ts";
import type { SenderRoutes } from "./sender.ts";
import { startTcpProxy, type TcpProxy } from "./tcp-proxy.ts";

interface Links {
  readonly kafka: readonly TcpProxy[];
  readonly postgres: TcpProxy;
  readonly clickhouse: TcpProxy;
  readonly receiver: TcpProxy;
}

/** A cluster with a proxy on each of its links, and a receiver. */
export interface Arena extends AsyncDisposable {
  readonly stores: ClusterStores;
  readonly cluster: Cluster;
  readonly links: Links;
  readonly receiver: LedgerReceiverProcess;
  /** The event store, bypassing its proxy. */
  readonly clickhouseUrl: string;
}

export interface ArenaOptions {
  readonly random: SeededRandom;
  readonly env?: Readonly<Record<string, string>>;
  readonly names?: readonly NodeName[];
}

export interface ArenaStores extends AsyncDisposable {
  readonly stores: ClusterStores;
  readonly links: Omit<Links, "receiver">;
}

/** Starts brokers, PostgreSQL and ClickHouse, each behind a proxy. @throws {Error} that says what is missing */
export async function startArenaStores(random: SeededRandom): Promise<ArenaStores> {
  const advertisedPorts = await freePorts(3);
  const stores = await startClusterStores({ advertisedPorts });
  const before = async (url: string) => {
    const { hostname: host, port } = new URL(url);
    return startTcpProxy({ target: { host, port: Number(port) }, random });
  };
  const kafka: TcpProxy[] = [];
  for (const [index, port] of stores.kafka.ports.entries())
    kafka.push(
      await startTcpProxy({
        target: { host: "127.0.0.1", port },
        port: advertisedPorts[index] ?? 0,
        random,
      }),
    );
  const postgres = await before(stores.databaseUrl);
  const clickhouse = await before(stores.clickhouseUrl);
  return {
    stores,
    links: { kafka, postgres, clickhouse },
    [Symbol.asyncDispose]: async () => {
      for (const proxy of [...kafka, postgres, clickhouse]) await proxy[Symbol.asyncDispose]();
      await stores[Symbol.asyncDispose]();
    },
  };
}

/** Starts the processes of a cluster on stores behind proxies, and a receiver behind one. */
export async function startArena(
  { stores, links }: ArenaStores,
  { random, env = {}, names = PAIRED_NODE_NAMES }: ArenaOptions,
): Promise<Arena> {
  const receiver = await startLedgerReceiverProcess();
  const target = { host: "127.0.0.1", port: Number(new URL(receiver.url).port) };
  const receiverLink = await startTcpProxy({ target, random });
  const cluster = await startCluster(
    {
      kafka: stores.kafka,
      databaseUrl: through(stores.databaseUrl, links.postgres),
      clickhouseUrl: through(stores.clickhouseUrl, links.clickhouse),
    },
    env,
    names,
  );
  return {
    stores,
    cluster,
    links: { ...links, receiver: receiverLink },
    receiver,
    clickhouseUrl: stores.clickhouseUrl,
    [Symbol.asyncDispose]: async () => {
      await cluster[Symbol.asyncDispose]();
      await receiverLink[Symbol.asyncDispose]();
      await receiver[Symbol.asyncDispose]();
    },
  };
}

/** Restores links, receiver, brokers and processes to their initial state before the next test. */
export async function heal({ stores, cluster, links, receiver }: Arena): Promise<void> {
  for (const link of [...links.kafka, links.postgres, links.clickhouse, links.receiver])
    link.setMode("pass");
  process.kill(receiver.pid(), "SIGCONT");
  receiver.setMode("well");
  await healCluster(stores, cluster);
}

function through(url: string, proxy: TcpProxy): string {
  const proxied = new URL(url);
  proxied.port = String(proxy.port);
  return proxied.href;
}

export interface DestinationPlan {
  /** How the receiver answers: see `ledger-receiver-child.ts`. */
  readonly path: string;
  readonly retries?: number;
  readonly limit?: { readonly max: number; readonly window: "second" | "minute" };
}

export interface Routes {
  readonly sender: SenderRoutes;
  readonly destinations: readonly DestinationUnderTest[];
}

const WINDOW_MS = { second: 1_000, minute: 60_000 } as const;

/** Creates an endpoint for each list of destinations, and a paused one. */
export async function makeRoutes(
  { cluster, links, receiver }: Arena,
  plans: readonly (readonly DestinationPlan[])[],
): Promise<Routes> {
  const { client } = cluster;
  const project = await client.projects.create({ name: `Faults ${Date.now()}` });
  const makeEndpoint = async (name: string) => {
    const { id, url } = await client.endpoints.create(project.id, {
      name,
      provider: "github",
      secret: GITHUB_SECRET,
    });
    return { endpointId: id, url };
  };
  const genuine: { endpointId: string; url: string }[] = [];
  const destinations: DestinationUnderTest[] = [];
  for (const [index, wanted] of plans.entries()) {
    const endpoint = await makeEndpoint(`GitHub ${index}`);
    genuine.push(endpoint);
    for (const { path, retries = 10, limit } of wanted) {
      const made = await client.destinations.create(endpoint.endpointId, {
        name: path,
        // Bypass the proxy where arrival times matter: it forwards in the sender's busy process.
        receiver_url:
          limit === undefined
            ? `http://127.0.0.1:${links.receiver.port}${path}`
            : `${receiver.url}${path}`,
        retry_backoff: "exponential",
        retry_max_attempts: retries,
        ...(limit === undefined
          ? {}
          : { rate_limit_max: limit.max, rate_limit_window: limit.window }),
      });
      destinations.push({
        id: made.id,
        endpointId: endpoint.endpointId,
        secret: made.service_secret,
        mayEndDead: path.startsWith("/dead"),
        limit: limit === undefined ? null : { max: limit.max, windowMs: WINDOW_MS[limit.window] },
      });
    }
  }
  const paused = await makeEndpoint("Paused");
  await client.endpoints.pause(paused.endpointId);
  return { sender: { genuine, paused }, destinations };
}
