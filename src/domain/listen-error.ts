import { UsageError } from "./errors.ts";

/** What to set so that several processes may listen on the port of the ingest. */
export const SHARE_INGEST_PORT =
  "RELAY_INGEST_SHARE_PORT=true in every process that is to share it";

/** Where a server was to listen. */
interface ListenAddress {
  readonly host: string;
  readonly port: number;
  /** Variable of the port; the host's is named alike. */
  readonly variable: string;
}

/** Makes the error that tells why a server cannot listen, and which variable to change. */
export function explainListenError(
  error: NodeJS.ErrnoException,
  address: ListenAddress,
): UsageError {
  return new UsageError(messageOf(error, address), { cause: error });
}

function messageOf(error: NodeJS.ErrnoException, { host, port, variable }: ListenAddress): string {
  switch (error.code) {
    case "EADDRINUSE":
      return `port ${port} is in use: set ${variable} to a free port, or stop the process that has it${variable === "RELAY_INGEST_PORT" ? `, or set ${SHARE_INGEST_PORT}` : ""}`;
    case "EACCES":
      return `port ${port} needs more rights (EACCES): set ${variable} to a port above 1023`;
    default:
      return `host ${host} cannot be listened on (${error.code ?? error.message}): set ${variable.replace(/_PORT$/, "_HOST")} to an address of this machine, such as 127.0.0.1, or 0.0.0.0 for all`;
  }
}
