import { METHODS, STATUS_CODES, type ServerResponse } from "node:http";
import { RequestError } from "@hono/node-server";
import type { Logger } from "../domain/logger.ts";
import { ApiFailure } from "./api-failure.ts";
import type { ApiErrorCode } from "./api-failure.ts";
import { describeError, errorBody, errorResponse, STATUS_OF_CODE } from "./envelope.ts";
import { ERROR_CATALOGUE } from "./error-catalogue.ts";

interface Refusal {
  readonly code: ApiErrorCode;
  readonly message: string;
  readonly allow?: string;
}

const NO_HTTP: Refusal = {
  code: "validation_error",
  message:
    "This is no valid HTTP request. In a URL, spaces and characters beyond ASCII are percent-encoded.",
};
/**
 * The refusal of CONNECT, which node:http does not answer, and of methods that its parser does not know. The path is not known either.
 */
const UNKNOWN_METHOD: Refusal = {
  code: "method_not_allowed",
  message: "No path has this method, which is case-sensitive.",
  allow: "GET, HEAD, POST, PATCH, DELETE, OPTIONS",
};
/** Refusals by error code of node:http and its parser. */
const REFUSALS: Readonly<Record<string, Refusal>> = {
  HPE_HEADER_OVERFLOW: {
    code: "headers_too_large",
    message: ERROR_CATALOGUE.headers_too_large.example,
  },
  ERR_HTTP_REQUEST_TIMEOUT: {
    code: "request_timeout",
    message: ERROR_CATALOGUE.request_timeout.example,
  },
};
/** The parser's code both for a method it does not know and for bytes that are not HTTP at all. */
const INVALID_METHOD = "HPE_INVALID_METHOD";
const REQUEST_LINE = /^(?<method>[!#$%&'*+.^_`|~\w-]+) \S+ HTTP\/1\.[01]\r?\n/;

type ParserError = NodeJS.ErrnoException & { readonly rawPacket?: Buffer };

/** Refusals carry a request id like the app's answers, both in the answer and in the log. */
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
 * Answers in the envelope what node:http could not read as a request, and closes the connection. The answers to earlier
 * requests go first: a client would otherwise take the refusal for theirs, although they were carried out.
 */
export class MalformedRequests {
  readonly #ports: RefusalPorts;
  /** Unsent answers of each connection, in the order of the requests. */
  readonly #unsent = new WeakMap<object, ServerResponse[]>();
  /** Connections already refused: the parser reports every further packet of theirs, too. */
  readonly #refused = new WeakSet<object>();

  constructor(ports: RefusalPorts) {
    this.#ports = ports;
  }

  /** Notes a request that was read and whose answer is still to come. */
  note(response: ServerResponse): void {
    const { socket } = response.req;
    const unsent = this.#unsent.get(socket) ?? [];
    this.#unsent.set(socket, unsent);
    unsent.push(response);
    response.once("close", () => unsent.splice(unsent.indexOf(response), 1));
  }

  refuse(error: ParserError, socket: Connection): void {
    if (!socket.writable) socket.destroy(error);
    else this.#refuseOnce(refusalOf(error), socket);
  }

  /**
   * Refuses CONNECT. node:http has released the socket and puts no limits on it any more, so the connection is closed
   * rather than kept waiting for the answers to earlier requests.
   */
  refuseConnect(socket: Connection): void {
    if ((this.#unsent.get(socket) ?? []).length > 0) socket.destroy();
    else answer(UNKNOWN_METHOD, socket, this.#ports);
  }

  #refuseOnce(refusal: Refusal, socket: Connection): void {
    if (this.#refused.has(socket)) return;
    this.#refused.add(socket);
    this.#refuseInTurn(refusal, socket);
  }

  #refuseInTurn(refusal: Refusal, socket: Connection): void {
    const unsent = this.#unsent.get(socket) ?? [];
    const before = unsent.find((response) => response.req.complete);
    if (before !== undefined) before.once("close", () => this.#refuseInTurn(refusal, socket));
    else if (unsent.some((response) => response.headersSent)) socket.destroy();
    else if (socket.writable) answer(refusal, socket, this.#ports);
  }
}

function refusalOf({ code = "", rawPacket }: ParserError): Refusal {
  const method = REQUEST_LINE.exec(rawPacket?.toString("latin1") ?? "")?.groups?.["method"];
  // A known method here belongs to an earlier request in the packet than the malformed one.
  const isUnknown = method !== undefined && !METHODS.includes(method);
  if (code === INVALID_METHOD && isUnknown) return UNKNOWN_METHOD;
  return REFUSALS[code] ?? NO_HTTP;
}

function answer(refusal: Refusal, socket: Connection, ports: RefusalPorts): void {
  const { code, message, allow } = refusal;
  const status = STATUS_OF_CODE[code];
  const requestId = ports.newRequestId();
  const body = JSON.stringify(errorBody({ code, message }, Date.now()));
  ports.logger?.info({ requestId, operation: "none", status }, "api.answered");
  socket.end(
    `HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\nConnection: close\r\n${allow === undefined ? "" : `Allow: ${allow}\r\n`}Content-Type: application/json\r\n` +
      `X-Request-Id: ${requestId}\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
    () => socket.destroy(),
  );
}

/** Answers a request whose target and Host header do not make a URL; the app answers all other errors itself. */
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
