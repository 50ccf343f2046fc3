import { setTimeout as delay } from "node:timers/promises";
import type { Cluster, NodeName } from "../../support/cluster.ts";
import type { Arena } from "./arena.ts";
import { nowMs, type FaultWindow } from "./ledgers.ts";
import type { SeededRandom } from "./random.ts";
import type { ProxyMode, TcpProxy } from "./tcp-proxy.ts";

/** Something that goes wrong and is mended again; `inflict` resolves when everything is back in place. */
export interface Fault {
  readonly name: string;
  inflict(): Promise<void>;
}

export type MakeFault = (arena: Arena, random: SeededRandom) => Fault;

const INGEST: readonly NodeName[] = ["ingest-1", "ingest-2"];
const DELIVERY: readonly NodeName[] = ["delivery-1", "delivery-2"];
const API: readonly NodeName[] = ["api", "api-2"];
const START_TRIES = 5;
/** Longer than any fault with its restarts: a process that fails to end or to start is a finding. */
const MEND_MS = 240_000;
/** Most freezes of delivery outlast its session of ten seconds. */
const FREEZE_MS = [2_000, 25_000] as const;

export const NODE_FAULTS: readonly MakeFault[] = [
  (arena, random) => killNode(arena, random.pick(INGEST), random.between(500, 4_000)),
  (arena, random) => killNode(arena, random.pick(DELIVERY), random.between(500, 15_000)),
  (arena, random) => killNode(arena, random.pick(API), random.between(500, 4_000)),
  (arena, random) => freezeNode(arena, random.pick(INGEST), random.between(1_000, 8_000)),
  (arena, random) => freezeNode(arena, random.pick(DELIVERY), random.between(...FREEZE_MS)),
  (arena, random) => endNode(arena, random.pick([...INGEST, ...DELIVERY, ...API])),
  (arena, random) => stormOfRebalances(arena, random.pick(DELIVERY)),
];

export const BROKER_FAULTS: readonly MakeFault[] = [
  (arena, random) =>
    killBroker(arena, 1 + Math.floor(random.next() * 3), random.between(500, 8_000)),
  (arena, random) =>
    freezeBroker(arena, 1 + Math.floor(random.next() * 3), random.between(1_000, 12_000)),
];

export const LINK_FAULTS: readonly MakeFault[] = [
  ({ links }, random) => spoil("a broker", random.pick(links.kafka), "lossy", random),
  ({ links }, random) => spoil("a broker", random.pick(links.kafka), "cut", random),
  ({ links }, random) => spoil("ClickHouse", links.clickhouse, "cut", random),
  ({ links }, random) => spoil("ClickHouse", links.clickhouse, "stall", random),
  ({ links }, random) => spoil("ClickHouse", links.clickhouse, "lossy", random),
  ({ links }, random) => spoil("PostgreSQL", links.postgres, "cut", random),
  ({ links }, random) => spoil("PostgreSQL", links.postgres, "stall", random),
  ({ links }, random) => spoil("the receiver", links.receiver, "lossy", random),
  ({ links }, random) => spoil("the receiver", links.receiver, "cut", random),
  (arena, random) => freezeReceiver(arena, random.between(1_000, 10_000)),
];

/** Kills a node with `kill -9`, and restarts it after `downMs`. */
export function killNode({ cluster }: Arena, name: NodeName, downMs: number): Fault {
  return {
    name: `kill -9 ${name}, down ${Math.round(downMs)} ms`,
    inflict: async () => {
      await cluster.node(name).kill("SIGKILL");
      await delay(downMs);
      await startAgain(cluster, name);
    },
  };
}

/** Freezes a node with SIGSTOP, and thaws it with SIGCONT after `forMs`. */
export function freezeNode({ cluster }: Arena, name: NodeName, forMs: number): Fault {
  return {
    name: `freeze ${name} for ${Math.round(forMs)} ms`,
    inflict: () => freeze(cluster.node(name).pid(), forMs),
  };
}

/** Ends a node with SIGTERM, which must exit with 0, and restarts it. */
export function endNode({ cluster }: Arena, name: NodeName): Fault {
  return {
    name: `SIGTERM ${name}`,
    inflict: async () => {
      const code = await cluster.node(name).kill("SIGTERM");
      if (code !== 0) throw new Error(`${name} ended with ${code} after SIGTERM`);
      await startAgain(cluster, name);
    },
  };
}

/** Makes a group member leave and return three times; each time all partitions are reassigned. */
export function stormOfRebalances({ cluster }: Arena, name: NodeName): Fault {
  return {
    name: `three rebalances by ${name}`,
    inflict: async () => {
      for (let round = 1; round <= 3; round += 1) {
        await cluster.node(name).kill(round === 2 ? "SIGKILL" : "SIGTERM");
        await startAgain(cluster, name);
      }
    },
  };
}

function killBroker({ stores }: Arena, broker: number, downMs: number): Fault {
  return {
    name: `kill -9 broker ${broker}, down ${Math.round(downMs)} ms`,
    inflict: async () => {
      await stores.kafka.kill(broker);
      await delay(downMs);
      await stores.kafka.restart(broker);
    },
  };
}

function freezeBroker({ stores }: Arena, broker: number, forMs: number): Fault {
  return {
    name: `freeze broker ${broker} for ${Math.round(forMs)} ms`,
    inflict: async () => {
      stores.kafka.freeze(broker);
      await delay(forMs);
      stores.kafka.thaw(broker);
    },
  };
}

function freezeReceiver({ receiver }: Arena, forMs: number): Fault {
  return {
    name: `freeze the receiver for ${Math.round(forMs)} ms`,
    inflict: () => freeze(receiver.pid(), forMs),
  };
}

/** Makes a link bad for `forMs`, or for as long as `meanwhile` takes if that is longer. */
export function spoilLink(
  name: string,
  link: TcpProxy,
  mode: ProxyMode,
  forMs: number,
  meanwhile: () => Promise<void> = () => Promise.resolve(),
): Fault {
  return {
    name: `${mode} link to ${name} for ${Math.round(forMs)} ms`,
    inflict: async () => {
      link.setMode(mode);
      try {
        await Promise.all([meanwhile(), delay(forMs)]);
      } finally {
        link.setMode("pass");
      }
    },
  };
}

function spoil(name: string, link: TcpProxy, mode: ProxyMode, random: SeededRandom): Fault {
  return spoilLink(name, link, mode, random.between(1_000, 15_000));
}

async function freeze(pid: number, forMs: number): Promise<void> {
  process.kill(pid, "SIGSTOP");
  try {
    await delay(forMs);
  } finally {
    process.kill(pid, "SIGCONT");
  }
}

/** Restarts a process, again if it cannot start just now (a broker went away at that moment), as an orchestrator would. */
async function startAgain(cluster: Cluster, name: NodeName): Promise<void> {
  for (let attempt = 1; ; attempt += 1)
    try {
      return await cluster.restart(name);
    } catch (error) {
      if (attempt === START_TRIES) throw error;
      await cluster.node(name).kill("SIGKILL");
      await delay(1_000);
    }
}

/** Inflicts a fault and records its window. */
export async function inflict(fault: Fault, windows: FaultWindow[]): Promise<void> {
  const window = { name: fault.name, startMs: nowMs(), endMs: Number.POSITIVE_INFINITY };
  windows.push(window);
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(
      () => reject(new Error(`not mended within ${MEND_MS} ms: ${fault.name}`)),
      MEND_MS,
    );
  });
  try {
    await Promise.race([fault.inflict(), late]);
  } finally {
    clearTimeout(timer);
  }
  window.endMs = nowMs();
}

/** Inflicts faults drawn from `kinds`, one after another with pauses, until stopped. Resolves when the last is mended. */
export async function keepInflicting(options: {
  readonly arena: Arena;
  readonly kinds: readonly MakeFault[];
  readonly random: SeededRandom;
  readonly pauseMs: readonly [low: number, high: number];
  readonly windows: FaultWindow[];
  readonly signal: AbortSignal;
}): Promise<void> {
  const { arena, kinds, random, pauseMs, windows, signal } = options;
  while (!signal.aborted) {
    await delay(random.between(...pauseMs), undefined, { signal }).catch(() => undefined);
    if (signal.aborted) return;
    await inflict(random.pick(kinds)(arena, random), windows);
  }
}
