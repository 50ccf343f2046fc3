import { once } from "node:events";
import { createServer, type AddressInfo, type Server } from "node:net";

/** Below the range that systems give to outgoing connections: a server that restarts on its port finds it free. */
const FIRST_PORT = 12_000;
const LAST_PORT = 30_000;

/** Ports on 127.0.0.1 that nobody listens on, all different. */
export async function freePorts(count: number): Promise<number[]> {
  const servers: Server[] = [];
  while (servers.length < count) {
    const server = await tryListen(
      FIRST_PORT + Math.floor(Math.random() * (LAST_PORT - FIRST_PORT)),
    );
    if (server !== null) servers.push(server);
  }
  const ports = servers.map((server) => (server.address() as AddressInfo).port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
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
