import { createServer, type AddressInfo } from "node:net";
import { UsageError } from "../domain/errors.ts";

/**
 * A port that is free now: the given one, or any for 0. Asked before the stores open, so that a port in use is told
 * at once; somebody else may still take it before it is listened on.
 * @throws {UsageError} naming the variable when it cannot be had
 */
export async function reservePort(host: string, port = 0, variable = "the port"): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => {
    server.once("error", (error: NodeJS.ErrnoException) =>
      reject(refusal(error, host, port, variable)),
    );
    server.listen(port, host, resolve);
  });
  const reserved = (server.address() as AddressInfo).port;
  await new Promise((resolve) => server.close(resolve));
  return reserved;
}

function refusal(
  error: NodeJS.ErrnoException,
  host: string,
  port: number,
  variable: string,
): UsageError {
  const reason =
    error.code === "EADDRINUSE"
      ? "is in use"
      : `cannot be listened on at ${host} (${error.code ?? error.message})`;
  return new UsageError(
    `port ${port} ${reason}: set ${variable} to a free port, or stop the process that has it`,
    { cause: error },
  );
}
