import { once } from "node:events";
import { createServer, type AddressInfo, type Server } from "node:net";

/** Below the range used for outgoing connections, so that a server that restarts on its port finds it free. */
const FIRST_PORT = 12_000;
const LAST_PORT = 30_000;
/** More than Vitest has workers. */
const PARTS = 8;

/** The ports this process has given out: the caller may only listen seconds later. */
const given = new Set<number>();

/**
 * Returns distinct free ports on 127.0.0.1, none of which this process gave out before. Each Vitest worker draws from its own
 * range: otherwise one might find free a port that another was given and does not listen on yet.
 */
export async function freePorts(count: number): Promise<number[]> {
  const servers: Server[] = [];
  while (servers.length < count) {
    const port = drawPort();
    if (given.has(port)) continue;
    const server = await tryListen(port);
    if (server === null) continue;
    given.add(port);
    servers.push(server);
  }
  const ports = servers.map((server) => (server.address() as AddressInfo).port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}

function drawPort(): number {
  const worker = process.env["VITEST_POOL_ID"];
  const parts = worker === undefined ? 1 : PARTS;
  const size = Math.floor((LAST_PORT - FIRST_PORT) / parts);
  const part = worker === undefined ? 0 : Number(worker) % parts;
  return FIRST_PORT + part * size + Math.floor(Math.random() * size);
}

async function tryListen(port: number): Promise<Server | null> {
  const server = createServer();
  try {
    server.listen(port, "127.0.0.1");
    await once(server, "listening");
    return server;
  } catch {
    return null;
  }
}
