import { readdirSync, readFileSync, readlinkSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo, Socket } from "node:net";
import { setTimeout as delay } from "node:timers/promises";

/** A request as the receiver saw it. */
export interface LedgerEntry {
  readonly eventId: string;
  readonly destinationId: string;
  readonly trigger: string;
  readonly tryNumber: number;
  readonly body: string;
  readonly beganMs: number;
  endedMs: number;
  /** The process that sent it; null when the process was gone before it could be looked up. */
  readonly senderPid: number | null;
}

export interface LedgerReceiver extends AsyncDisposable {
  readonly url: string;
  readonly entries: readonly LedgerEntry[];
}

/**
 * Starts a receiver that answers 200 to everything `holdMs` after it came in and notes the sender: the process that owns
 * the socket at the other end, so the relay need not identify itself (Linux).
 */
export async function startLedgerReceiver(options: {
  readonly holdMs: number;
  readonly senderPids: () => readonly number[];
}): Promise<LedgerReceiver> {
  const entries: LedgerEntry[] = [];
  const senders = new WeakMap<Socket, number | null>();
  const owners = socketOwners(options);
  const server = createServer((request, response) => {
    const beganMs = performance.now();
    const chunks: Buffer[] = [];
    let entry: LedgerEntry | null = null;
    request.on("data", (chunk: Buffer) => chunks.push(chunk));
    request.on("end", () => {
      entry = {
        eventId: String(request.headers["webhook-id"]),
        destinationId: String(request.headers["x-relay-destination-id"]),
        trigger: String(request.headers["x-relay-trigger"]),
        tryNumber: Number(request.headers["x-relay-attempt"]),
        body: Buffer.concat(chunks).toString(),
        beganMs,
        endedMs: Number.POSITIVE_INFINITY,
        senderPid: senders.get(request.socket) ?? null,
      };
      entries.push(entry);
      void delay(options.holdMs).then(() => {
        response.writeHead(200).end("ok");
      });
    });
    // Emitted also when the sender was killed: the request is no longer open then.
    response.on("close", () => {
      if (entry !== null) entry.endedMs = performance.now();
    });
  });
  server.on("connection", (socket) => {
    senders.set(socket, owners.find(socket.remotePort ?? 0, socket.localPort ?? 0));
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, "127.0.0.1", 1024, resolve);
  });
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    entries,
    [Symbol.asyncDispose]: () =>
      new Promise<void>((resolve) => {
        server.close(() => resolve());
        server.closeAllConnections();
      }),
  };
}

/** How long a reading of which process has which port is trusted. */
const OWNERS_MS = 500;

/**
 * Finds which process has the socket from `port` to `peerPort` on 127.0.0.1. Reads all of their sockets at once, and only
 * for an unknown one: connections come by the hundred, and a receiver that looked each up alone would be too slow to answer.
 */
function socketOwners({ senderPids }: { readonly senderPids: () => readonly number[] }) {
  let owners = new Map<string, number>();
  let readAtMs = 0;
  const hex = (value: number) => value.toString(16).toUpperCase().padStart(4, "0");
  return {
    find(port: number, peerPort: number): number | null {
      const key = `${hex(port)} ${hex(peerPort)}`;
      // Ports are reused: trust a reading only briefly.
      if (!owners.has(key) || performance.now() - readAtMs > OWNERS_MS) {
        owners = readOwners(senderPids());
        readAtMs = performance.now();
      }
      return owners.get(key) ?? null;
    },
  };
}

/** Maps local and remote port, in hex as in `/proc/net/tcp`, to the process. */
function readOwners(pids: readonly number[]): Map<string, number> {
  const pidByInode = new Map(
    pids.flatMap((pid) => inodesOf(pid).map((inode) => [inode, pid] as const)),
  );
  const owners = new Map<string, number>();
  for (const line of readFileSync("/proc/net/tcp", "utf8").split("\n").slice(1)) {
    const fields = line.trim().split(/\s+/);
    const pid = pidByInode.get(fields[9] ?? "");
    const port = fields[1]?.slice(-4);
    const peerPort = fields[2]?.slice(-4);
    if (pid !== undefined) owners.set(`${port} ${peerPort}`, pid);
  }
  return owners;
}

function inodesOf(pid: number): string[] {
  const dir = `/proc/${pid}/fd`;
  try {
    return readdirSync(dir).flatMap((fd) => {
      try {
        return /^socket:\[(\d+)\]$/.exec(readlinkSync(`${dir}/${fd}`))?.[1] ?? [];
      } catch {
        return [];
      }
    });
  } catch {
    return [];
  }
}

/**
 * Finds pairs of requests to one destination that two processes had open at the same moment. A process and its restarted
 * successor count as two; a request whose sender is unknown does not count.
 */
export function findOverlaps(
  entries: readonly LedgerEntry[],
): readonly (readonly [LedgerEntry, LedgerEntry])[] {
  const overlaps: [LedgerEntry, LedgerEntry][] = [];
  const byDestination = group(entries);
  for (const requests of byDestination.values()) {
    const open: LedgerEntry[] = [];
    for (const entry of requests.toSorted((a, b) => a.beganMs - b.beganMs)) {
      const still = open.filter(({ endedMs }) => endedMs > entry.beganMs);
      for (const other of still)
        if (
          other.senderPid !== entry.senderPid &&
          other.senderPid !== null &&
          entry.senderPid !== null
        )
          overlaps.push([other, entry]);
      open.splice(0, open.length, ...still, entry);
    }
  }
  return overlaps;
}

function group(entries: readonly LedgerEntry[]): Map<string, LedgerEntry[]> {
  const groups = new Map<string, LedgerEntry[]>();
  for (const entry of entries) {
    const list = groups.get(entry.destinationId);
    if (list === undefined) groups.set(entry.destinationId, [entry]);
    else list.push(entry);
  }
  return groups;
}
