import { STATUS_CODES, type ServerResponse } from "node:http";
import { RequestError } from "@hono/node-server";
import { ApiFailure } from "./api-failure.ts";
import { describeError, errorBody, errorResponse } from "./envelope.ts";

const NO_HTTP = [
  400,
  "This is no valid HTTP request. In a URL, spaces and characters beyond ASCII are percent-encoded.",
] as const;
/** By the codes of node:http and its parser. */
const REFUSALS: Readonly<Record<string, readonly [status: number, message: string]>> = {
  HPE_HEADER_OVERFLOW: [431, "The URL and the headers are larger than 16 KiB."],
  ERR_HTTP_REQUEST_TIMEOUT: [408, "The request did not arrive in time."],
};

interface Connection {
  readonly writable: boolean;
  end(text: string, flushed: () => void): unknown;
  destroy(error?: Error): unknown;
}

/**
 * Answers in the envelope what node:http could not read as a request, and closes the connection. Nothing is written into an
 * answer that is half sent.
 */
export function refuseMalformed(
  error: NodeJS.ErrnoException,
  socket: Connection,
  latest: ServerResponse | undefined,
): void {
  const isAnswering = latest?.headersSent === true && !latest.writableFinished;
  if (!socket.writable || isAnswering) {
    socket.destroy(error);
    return;
  }
  const [status, message] = REFUSALS[error.code ?? ""] ?? NO_HTTP;
  const body = JSON.stringify(errorBody({ code: "validation_error", message }, Date.now()));
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nConnection: close\r\nContent-Type: application/json\r\n` +
      `Content-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
    () => socket.destroy(),
  );
}

/** The answer to a request whose target and Host header make no URL; the app answers all other errors itself. */
export function refuseUrl(error: unknown): Response {
  const failure =
    error instanceof RequestError
      ? new ApiFailure("validation_error", "The Host header or the URL is malformed.")
      : error;
  return errorResponse(describeError(failure, "none"), Date.now());
}
