import type { HttpRequest, HttpResponse, TemplatedApp, us_listen_socket } from "uWebSockets.js";
import { UsageError } from "../../domain/errors.ts";
import { Exchange } from "./exchange.ts";
import type { ExchangeHost } from "./exchange.ts";
import type { Answer } from "../../domain/incoming-request.ts";
import { SHARE_INGEST_PORT } from "../../domain/listen-error.ts";
import { HeadDeadline } from "./head-deadline.ts";
import type { IngestServerOptions } from "./server-options.ts";
import { loadUws } from "./load-uws.ts";
import type { UwsModule } from "./load-uws.ts";
import { writeAnswer } from "./write-answer.ts";
import { makeAddressReader } from "./remote-address.ts";
import { readHead } from "./request-head.ts";

/** By then a sender in full flow has used its connection again, and the answer has told it not to use it once more. */
const FAREWELL_MS = 1_000;
const HOW_TO_TAKE_MORE =
  "let the proxy in front keep fewer connections, raise the limit of open files (ulimit -n), or add ingest processes";
/** A server that is full refuses thousands of connections a second. */
const TELL_EVERY_MS = 60_000;
const NO_BODY = new ArrayBuffer(0);
const HEAD_MISSING =
  "no request head has arrived that can be read: it is not complete, or one of its lines is folded or empty, has no colon, or a character that it must not have";
const BODY_MISSING = "the body has not arrived whole, and comes too slowly";
const CHUNKS_MISSING = `${BODY_MISSING}, or in chunks that cannot be read`;

/** A form that the library has and the typings leave out; `LIBUS_LISTEN_EXCLUSIVE_PORT` is missing there as a value. */
interface ListenWithOptions {
  listen(
    host: string,
    port: number,
    options: number,
    callback: (socket: us_listen_socket | false) => void,
  ): unknown;
}

export interface IngestServer extends AsyncDisposable {
  readonly port: number;
  /**
   * Takes no more connections and answers with `Connection: close`: what is in flight for `graceMs`, and what still arrives on open
   * connections for a second of that, since closing one resets a request that is on its way. Then closes all connections.
   */
  stop(graceMs: number): Promise<void>;
}

/**
 * Starts the public HTTP server of the ingest, on uWebSockets.js. It closes the holes that are left to that library's users:
 * smuggling through doubled framing headers, reuse after chunked bodies, HEAD with a body, silent 404s, handlers that throw.
 * @throws {UsageError} when it cannot listen, or has no binary for this Node version
 */
export async function startIngestServer(options: IngestServerOptions): Promise<IngestServer> {
  const uws = await loadUws();
  const { handle, metrics, logger } = options;
  const now = options.now ?? Date.now;
  const limit = options.maxConnections ?? Number.POSITIVE_INFINITY;
  const addressOf = makeAddressReader();
  // Counted, not kept in a Set, whose outgrown tables keep alive what was in them: see "The collector" in bench/what-was-tried.md.
  let openExchanges = 0;
  let openConnections = 0;
  let refusedConnections = 0;
  let toldAtMs = Number.NEGATIVE_INFINITY;
  let stopping: Promise<void> | null = null;
  /** Called when fewer or more are open. */
  let onCountChange: () => void = () => undefined;

  const host: ExchangeHost = {
    metrics,
    isStopping: () => stopping !== null,
    onBodyMissing(exchange, isChunked) {
      metrics.malformed("no whole body in time");
      exchange.fail(
        isChunked
          ? malformedAnswer(CHUNKS_MISSING)
          : ownAnswer("408 Request Timeout", "request_timeout", BODY_MISSING),
      );
    },
    ended() {
      openExchanges -= 1;
      onCountChange();
    },
  };
  const headDeadline = new HeadDeadline((response) => {
    metrics.malformed("no readable head in time");
    const form = { method: "", mustClose: true, isContinued: false };
    writeAnswer(response, malformedAnswer(HEAD_MISSING), form);
  });

  function ownAnswer(status: string, code: string, message: string): Answer {
    const timestamp = new Date(now()).toISOString();
    const body = JSON.stringify({ error: { code, message }, timestamp });
    return { status, eventId: null, extraHeader: null, body };
  }

  function malformedAnswer(message: string): Answer {
    return ownAnswer("400 Bad Request", "malformed_request", message);
  }

  function fail(exchange: Exchange, error: unknown): void {
    logger.error({ err: error }, "ingest.handler_failed");
    exchange.fail(ownAnswer("500 Internal Server Error", "internal_error", "Something went wrong"));
  }

  function begin(response: HttpResponse, request: HttpRequest, exchange: Exchange): void {
    const address = addressOf(response);
    headDeadline.onRequest(address);
    const known = readHead(request, address);
    exchange.identify(known);
    const { head, malformed } = known;
    if (malformed !== null) {
      metrics.malformed(malformed);
      exchange.fail(malformedAnswer(malformed));
      return;
    }
    if (head.declaredBytes !== 0)
      response.onData((chunk, isLast) => {
        try {
          exchange.receive(chunk, isLast);
        } catch (error) {
          fail(exchange, error);
        }
      });
    const reception = handle(head, (answer) => exchange.answer(answer));
    if (reception instanceof Promise) {
      // This body has not been admitted yet, so no more of it is read.
      exchange.pause();
      reception
        .then((found) => exchange.start(found))
        .catch((error: unknown) => fail(exchange, error));
    } else exchange.start(reception);
    // Chunks that cannot be read never arrive.
    if (head.declaredBytes === null) exchange.awaitBody();
    // uWebSockets.js reports the end of an empty body, but not if the head came in more than one packet.
    if (head.declaredBytes === 0) exchange.receive(NO_BODY, true);
  }

  /** Logs one line at first, then at most one a minute, with the number of connections it stands for. */
  function refuseConnection(response: HttpResponse): void {
    metrics.connectionRefused();
    response.close();
    refusedConnections += 1;
    const nowMs = performance.now();
    if (nowMs - toldAtMs < TELL_EVERY_MS) return;
    logger.warn(
      { count: refusedConnections, max: limit, mend: HOW_TO_TAKE_MORE },
      "ingest.connections_refused",
    );
    toldAtMs = nowMs;
    refusedConnections = 0;
  }

  const app = uws.App();
  app.filter((response, change) => {
    openConnections += change;
    metrics.connections(openConnections);
    onCountChange();
    if (change < 0) return;
    if (openConnections > limit) refuseConnection(response);
    else headDeadline.onOpened(response, addressOf(response));
  });
  app.any("/*", (response, request) => {
    const exchange = new Exchange(response, host);
    // First of all: a throw before this is attached would end the process.
    response.onAborted(() => exchange.abort());
    openExchanges += 1;
    try {
      begin(response, request, exchange);
    } catch (error) {
      fail(exchange, error);
    }
  });

  const socket = await listen(uws, app, options);

  /** Resolves once `isSo` holds, or after `maxMs`. */
  function reached(isSo: () => boolean, maxMs: number): Promise<void> {
    if (isSo() || maxMs <= 0) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, maxMs);
      onCountChange = () => {
        if (!isSo()) return;
        clearTimeout(timer);
        resolve();
      };
    });
  }

  async function shutDown(graceMs: number): Promise<void> {
    uws.us_listen_socket_close(socket);
    const startedMs = performance.now();
    await reached(() => openConnections === 0, Math.min(FAREWELL_MS, graceMs));
    await reached(() => openExchanges === 0, graceMs - (performance.now() - startedMs));
    app.close();
  }

  const stop = (graceMs: number): Promise<void> => (stopping ??= shutDown(graceMs));
  return {
    port: uws.us_socket_local_port(socket),
    stop,
    [Symbol.asyncDispose]: () => stop(0),
  };
}

/** @throws {UsageError} when the port is taken, forbidden, or not an address of this machine */
function listen(
  uws: UwsModule,
  app: TemplatedApp,
  options: Pick<IngestServerOptions, "host" | "port" | "sharePort">,
): Promise<us_listen_socket> {
  const { host, port, sharePort } = options;
  return new Promise((resolve, reject) => {
    const done = (socket: us_listen_socket | false): void => {
      if (socket === false) {
        const message = `cannot listen for webhooks on ${host}:${port}: the port is in use or not allowed; set RELAY_INGEST_PORT or RELAY_INGEST_HOST, or ${SHARE_INGEST_PORT}`;
        reject(new UsageError(message));
      } else {
        resolve(socket);
      }
    };
    if (sharePort) app.listen(host, port, done);
    else
      (app as unknown as ListenWithOptions).listen(
        host,
        port,
        uws.LIBUS_LISTEN_EXCLUSIVE_PORT,
        done,
      );
  });
}
