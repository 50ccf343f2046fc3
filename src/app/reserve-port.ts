import { connect, createServer, type AddressInfo } from "node:net";
import { UsageError } from "../domain/errors.ts";

const CONNECT_MS = 1_000;

/**
 * A port that is free now: the given one, or any for 0. Asked before the stores open, so that a port in use is told
 * at once; somebody else may still take it before it is listened on. A given one is not listened on to find out: for that moment
 * it would take connections of clients that wait for the relay, and reset them.
 * @param variable of the port; that of the host is named alike
 * @throws {UsageError} naming the variable that is to be changed when it cannot be had
 */
export async function reservePort(host: string, port = 0, variable = "the port"): Promise<number> {
  const free = await findFreePort(host, port, variable);
  if (port === 0) return free;
  if (await isListenedOn(host, port))
    throw explainListenError({ code: "EADDRINUSE" }, { host, port, variable });
  return port;
}

async function isListenedOn(host: string, port: number): Promise<boolean> {
  const isAny = host === "0.0.0.0" || host === "::";
  for (const address of isAny ? ["127.0.0.1", "::1"] : [host])
    if (await answers(address, port)) return true;
  return false;
}

/** Somebody who takes no connections because it has too many is there as well. */
function answers(host: string, port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect({ host, port, timeout: CONNECT_MS });
    const end = (isThere: boolean): void => {
      socket.destroy();
      resolve(isThere);
    };
    // From a port that happens to be the same one, it has reached itself.
    socket.once("connect", () => end(socket.localPort !== port));
    socket.once("timeout", () => end(true));
    socket.once("error", () => end(false));
  });
}

/** On that host, of which it is told whether it is this machine's. */
async function findFreePort(host: string, port: number, variable: string): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) =>
      reject(explainListenError(error, { host, port, variable })),
    );
    server.listen(0, host, resolve);
  });
  const reserved = (server.address() as AddressInfo).port;
  await new Promise((resolve) => server.close(resolve));
  return reserved;
}

/** @param listener.variable of the port; that of the host is named alike */
export function explainListenError(
  error: Partial<NodeJS.ErrnoException>,
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
