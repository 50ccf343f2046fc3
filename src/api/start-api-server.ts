import { randomUUID } from "node:crypto";
import { createServer } from "node:http";
import type { RequestListener, Server } from "node:http";
import { getRequestListener } from "@hono/node-server";
import type { Logger } from "../domain/logger.ts";
import { parseUrl } from "../domain/parse-url.ts";
import type { Api } from "./api.ts";
import { keepDotSegments } from "./dot-segments.ts";
import { listen } from "./listen.ts";
import { MalformedRequests, refuseUrl } from "./refuse-malformed.ts";
import { UnsentAnswers } from "./unsent-answers.ts";

const GRACE_MS = 10_000;
const REQUEST_TIMEOUT_MS = 30_000;
/** Cuts off a sender that drips its headers or sends none. */
const HEADERS_TIMEOUT_MS = 10_000;
const CHECK_EVERY_MS = 2_000;
/** Cuts off a client that reads nothing of its answer. Longer than any operation takes. */
const STALLED_MS = 60_000;
/** Stands for the host where HTTP/1.0 names none; no answer depends on it. */
const UNNAMED_HOST = "localhost";
const IPV6_HOST = /^\[[^\]]*\](?::\d*)?$/;
/** Most memory for answers that clients have not read yet; one event of 10 MB may be 60 MB of JSON. */
const MAX_UNSENT_BYTES = 256 * 1024 * 1024;

export interface ApiServerOptions {
  readonly app: Pick<Api, "fetch">;
  readonly host: string;
  /** 0 picks a free port. */
  readonly port: number;
  /** Most open connections; further ones are closed at once. Default: no limit. */
  readonly maxConnections?: number;
  /** How long nothing may move on a connection before it is closed. */
  readonly stalledMs?: number;
  readonly maxUnsentBytes?: number;
  /** Logs what never reached the app. */
  readonly logger?: Pick<Logger, "info" | "error">;
}

export interface ApiServer extends AsyncDisposable {
  readonly port: number;
}

/**
 * Starts the server of the API. Disposing it lets requests in flight finish, for at most 10 s.
 * @throws {UsageError} when the port cannot be had
 */
export async function startApiServer(options: ApiServerOptions): Promise<ApiServer> {
  const refusals = { newRequestId: randomUUID, logger: options.logger };
  const listener = getRequestListener(options.app.fetch, {
    errorHandler: (error) => refuseUrl(error, refusals),
  });
  const malformed = new MalformedRequests(refusals);
  const unsent = new UnsentAnswers(options.maxUnsentBytes ?? MAX_UNSENT_BYTES);
  const onRequest: RequestListener = (request, response) => {
    malformed.note(response);
    // A keep-alive connection whose request ends while the server is closing must be closed, too.
    response.once("close", () => {
      if (!server.listening) setImmediate(() => server.closeIdleConnections());
    });
    request.url = keepDotSegments(request.url ?? "/");
    const { host } = request.headers;
    // Only HTTP/1.1 needs a Host (RFC 9112, section 3.2): balancers that ask whether the API is well (haproxy's httpchk) send none.
    if (host === undefined && request.httpVersion === "1.0") request.headers.host = UNNAMED_HOST;
    if (host !== undefined && IPV6_HOST.test(host)) request.headers.host = canonicalHost(host);
    void Promise.resolve(listener(request, response)).then(() =>
      unsent.note(response, request.headers.authorization ?? ""),
    );
  };
  const server = createServer(
    {
      requestTimeout: REQUEST_TIMEOUT_MS,
      headersTimeout: HEADERS_TIMEOUT_MS,
      connectionsCheckingInterval: CHECK_EVERY_MS,
      keepAliveTimeout: 65_000,
      // Left to the app, which refuses in the envelope both a missing Host and several (joined into an invalid
      // one; RFC 9112, section 3.2).
      requireHostHeader: false,
      joinDuplicateHeaders: true,
    },
    onRequest,
  );
  server.timeout = options.stalledMs ?? STALLED_MS;
  // node:http by itself drops what is beyond a thousand, the key perhaps, without a word; 16 KiB of headers are the limit.
  server.maxHeadersCount = 0;
  // Expectations other than 100-continue may be ignored (RFC 9110, 10.1.1); node:http by itself would answer 417 without a body.
  server.on("checkExpectation", onRequest);
  server.on("clientError", (error, socket) => malformed.refuse(error, socket));
  server.on("connect", (request, socket) => {
    socket.on("error", () => socket.destroy());
    request.socket.setTimeout(GRACE_MS / 2, () => socket.destroy());
    malformed.refuseConnect(socket);
  });
  if (options.maxConnections !== undefined) server.maxConnections = options.maxConnections;
  await listen(server, options, "RELAY_API_PORT");
  const { port } = server.address() as { readonly port: number };
  return { port, [Symbol.asyncDispose]: () => close(server) };
}

/** Rewrites an IPv6 address in the spelling of RFC 5952: the adapter refuses any other, which a client may send. */
function canonicalHost(host: string): string {
  return parseUrl(`http://${host}/`)?.host ?? host;
}

async function close(server: Server): Promise<void> {
  if (!server.listening) return;
  const timer = setTimeout(() => server.closeAllConnections(), GRACE_MS);
  timer.unref();
  await new Promise<void>((resolve) => {
    server.close(() => resolve());
    server.closeIdleConnections();
  });
  clearTimeout(timer);
}
