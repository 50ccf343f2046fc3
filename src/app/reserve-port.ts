import { createServer, type AddressInfo } from "node:net";
import { UsageError } from "../domain/errors.ts";

/**
 * A port that is free now: the given one, or any for 0. Asked before the stores open, so that a port in use is told
 * at once; somebody else may still take it before it is listened on.
 * @param variable of the port; that of the host is named alike
 * @throws {UsageError} naming the variable that is to be changed when it cannot be had
 */
export async function reservePort(host: string, port = 0, variable = "the port"): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) =>
      reject(explainListenError(error, { host, port, variable })),
    );
    server.listen(port, host, resolve);
  });
  const reserved = (server.address() as AddressInfo).port;
  await new Promise((resolve) => server.close(resolve));
  return reserved;
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
