import { lookup } from "node:dns/promises";
import { connect, createServer, type AddressInfo } from "node:net";
import { explainListenError } from "../domain/listen-error.ts";

/** A port of this machine where nobody listens (tcpmux): a connection from the port in question is refused at once. */
const NOBODY_PORT = 1;
const CONNECT_MS = 1_000;

/**
 * Returns a port that is free now: the given one, or any for 0. To be called before the stores open, so that a port in
 * use is reported at once; another process may still take it before it is listened on. A given port is not listened on
 * to find out: for that moment it would accept connections of clients that wait for the relay, and reset them.
 * @param variable variable of the port; the host's is named alike
 * @throws {UsageError} that names the variable to change when the port cannot be had
 */
export async function reservePort(host: string, port = 0, variable = "the port"): Promise<number> {
  try {
    const free = await findFreePort(host);
    if (port === 0) return free;
    await bind(host, port);
    return port;
  } catch (error) {
    throw explainListenError(error as NodeJS.ErrnoException, { host, port, variable });
  }
}

/** Finds a free port on the host. @throws when the host is not this machine's */
async function findFreePort(host: string): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once("error", reject);
    server.listen(0, host, resolve);
  });
  const { port } = server.address() as AddressInfo;
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** Binds a client's socket, which accepts no connections. @throws as listening there would */
async function bind(host: string, port: number): Promise<void> {
  const { address, family } = await lookup(host);
  const loopback = family === 6 ? "::1" : "127.0.0.1";
  await new Promise<void>((resolve, reject) => {
    const socket = connect({
      host: loopback,
      port: NOBODY_PORT,
      localAddress: address,
      localPort: port,
      timeout: CONNECT_MS,
    });
    const isBound = (): void => {
      socket.destroy();
      resolve();
    };
    socket.once("connect", isBound);
    socket.once("timeout", isBound);
    // Once bound, it is refused or finds no route from that address.
    socket.once("error", (error: NodeJS.ErrnoException) =>
      error.syscall === "bind" ? reject(error) : isBound(),
    );
  });
}
