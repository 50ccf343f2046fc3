import { STATUS_CODES, type ServerResponse } from "node:http";
import { RequestError } from "@hono/node-server";
import type { Logger } from "../domain/logger.ts";
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

/** Refusals are named as the app names its answers, in the answer and in the log. */
export interface RefusalPorts {
  readonly newRequestId: () => string;
  readonly logger?: Pick<Logger, "info" | "error"> | undefined;
}

interface Connection {
  readonly writable: boolean;
  end(text: string, flushed: () => void): unknown;
  destroy(error?: Error): unknown;
}

/**
 * Answers in the envelope what node:http could not read as a request, and closes the connection. The answers to the requests
 * before it go first: a client would take the refusal for theirs, though what they asked for is done.
 */
export class MalformedRequests {
  readonly #ports: RefusalPorts;
  /** Of each connection, in the order of the requests. */
  readonly #unsent = new WeakMap<object, ServerResponse[]>();
  /** The parser reports each further packet of such a connection, too. */
  readonly #refused = new WeakSet<object>();

  constructor(ports: RefusalPorts) {
    this.#ports = ports;
  }

  /** A request was read, whose answer is to come. */
  note(response: ServerResponse): void {
    const { socket } = response.req;
    const unsent = this.#unsent.get(socket) ?? [];
    this.#unsent.set(socket, unsent);
    unsent.push(response);
    response.once("close", () => unsent.splice(unsent.indexOf(response), 1));
  }

  refuse(error: NodeJS.ErrnoException, socket: Connection): void {
    if (!socket.writable) socket.destroy(error);
    else if (!this.#refused.has(socket)) {
      this.#refused.add(socket);
      this.#refuseInTurn(error, socket);
    }
  }

  #refuseInTurn(error: NodeJS.ErrnoException, socket: Connection): void {
    const unsent = this.#unsent.get(socket) ?? [];
    const before = unsent.find((response) => response.req.complete);
    if (before !== undefined) before.once("close", () => this.#refuseInTurn(error, socket));
    else if (unsent.some((response) => response.headersSent)) socket.destroy(error);
    else if (socket.writable) answer(error, socket, this.#ports);
  }
}

function answer(error: NodeJS.ErrnoException, socket: Connection, ports: RefusalPorts): void {
  const [status, message] = REFUSALS[error.code ?? ""] ?? NO_HTTP;
  const requestId = ports.newRequestId();
  const body = JSON.stringify(errorBody({ code: "validation_error", message }, Date.now()));
  ports.logger?.info({ requestId, operation: "none", status }, "api.answered");
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nConnection: close\r\nContent-Type: application/json\r\n` +
      `X-Request-Id: ${requestId}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
    () => socket.destroy(),
  );
}

/** The answer to a request whose target and Host header make no URL; the app answers all other errors itself. */
export function refuseUrl(error: unknown, { newRequestId, logger }: RefusalPorts): Response {
  const requestId = newRequestId();
  const isUrl = error instanceof RequestError;
  const described = describeError(
    isUrl ? new ApiFailure("validation_error", "The Host header or the URL is malformed.") : error,
    requestId,
  );
  const { status, code } = described;
  if (isUrl) logger?.info({ requestId, operation: "none", status }, "api.answered");
  else logger?.error({ requestId, operation: "none", code, err: error }, "api.failed");
  const response = errorResponse(described, Date.now());
  response.headers.set("x-request-id", requestId);
  return response;
}
