import type { Server } from "node:http";
import { explainListenError } from "../domain/listen-error.ts";

/**
 * Has a server of node:http listen.
 * @param variable variable of the port; the host's is named alike
 * @throws {UsageError} that names the variable to change when the port cannot be had
 */
export function listen(
  server: Server,
  { host, port }: { readonly host: string; readonly port: number },
  variable: string,
): Promise<void> {
  return new Promise((resolve, reject) => {
    // Never removed: a connection that cannot be accepted is reported here too, and would end the process if nobody listened.
    server.on("error", (error: NodeJS.ErrnoException) => {
      reject(explainListenError(error, { host, port, variable }));
    });
    server.listen({ host, port }, resolve);
  });
}
