import { lookup } from "node:dns/promises";
import { connect, createServer, type AddressInfo } from "node:net";
import { UsageError } from "../domain/errors.ts";

/** Of this machine, where nobody listens (tcpmux): a connection from the port in question is refused at once. */
const NOBODY_PORT = 1;
const CONNECT_MS = 1_000;

/**
 * A port that is free now: the given one, or any for 0. Asked before the stores open, so that a port in use is told
 * at once; somebody else may still take it before it is listened on. A given one is not listened on to find out: for that moment
 * it would take connections of clients that wait for the relay, and reset them.
 * @param variable of the port; that of the host is named alike
 * @throws {UsageError} naming the variable that is to be changed when it cannot be had
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

/** On that host. @throws where it is not this machine's */
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

/** Binds a socket as a client's, which takes no connections. @throws as listening there would */
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
    // Bound, it is refused, or finds no way from that address.
    socket.once("error", (error: NodeJS.ErrnoException) =>
      error.syscall === "bind" ? reject(error) : isBound(),
    );
  });
}

/** @param listener.variable of the port; that of the host is named alike */
export function explainListenError(
  error: NodeJS.ErrnoException,
  { host, port, variable }: { host: string; port: number; variable: string },
): UsageError {
  const cause = { cause: error };
  if (error.code !== "EADDRINUSE" && error.code !== "EACCES")
    return new UsageError(
      `host ${host} cannot be listened on (${error.code ?? error.message}): set ${variable.replace(/_PORT$/, "_HOST")} to an address of this machine, such as 127.0.0.1, or 0.0.0.0 for all`,
      cause,
    );
  const reason =
    error.code === "EADDRINUSE" ? "is in use" : `cannot be listened on at ${host} (${error.code})`;
  return new UsageError(
    `port ${port} ${reason}: set ${variable} to a free port, or stop the process that has it`,
    cause,
  );
}
