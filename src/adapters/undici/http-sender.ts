import type { CidrList } from "../../domain/ip.ts";
import type { OutboundRequest, Reply } from "../../domain/outbound-request.ts";
import { MAX_RESPONSE_BODY_BYTES } from "../../domain/response-body.ts";
import { boundedText } from "./bounded-text.ts";
import { DeadlineError, Exchange, type RequestToSend } from "./exchange.ts";
import { failureReason } from "./failure-reason.ts";
import { headerBytes } from "./header-bytes.ts";
import { PoolCache } from "./pool-cache.ts";
import { ReceiverGuard, type ReceiverCheck } from "./receiver-guard.ts";
import { makeSystemResolver, type ResolveHost } from "./resolve-host.ts";
import { TryLimits } from "./try-limits.ts";

const MAX_READ_BYTES = 64 * 1024;
const MAX_RESPONSE_HEADER_BYTES = 16 * 1024;
const RESOLVE_TIMEOUT_MS = 3_000;
const IDLE_TIMEOUT_MS = 30_000;
const CONNECTION_AGE_MS = 60_000;

/** Connections of one process to one receiver URL, however many destinations share it; more at once get in the way of a slow receiver. */
export const CONNECTIONS_PER_RECEIVER = 64;

export interface HttpSenderOptions {
  readonly allowPrivate: CidrList;
  /** Time for the whole try, from connecting to the last byte. */
  readonly timeoutMs: number;
  readonly resolve?: ResolveHost;
  /** Tries beyond this many wait while their time runs. Default `CONNECTIONS_PER_RECEIVER`. */
  readonly maxConnectionsPerReceiver?: number;
  /** While more connections than this are open, those that are not in use are not kept. Default: no limit. */
  readonly maxKeptConnections?: number;
  /** How long an unused connection is kept. Default 30 s. */
  readonly idleTimeoutMs?: number;
  /** How long a connection in steady use is kept at least; twice as long at most. Default 60 s. */
  readonly connectionAgeMs?: number;
  /** PEM certificates trusted instead of the system's. */
  readonly ca?: string;
}

export interface HttpSender extends AsyncDisposable {
  /** POSTs, without following redirects or inflating. Never rejects for what the receiver does. @throws the signal's reason when aborted */
  send(request: OutboundRequest, signal: AbortSignal, onSent?: () => void): Promise<Reply>;
  /** Checks a receiver URL when it is written: text, policy and resolution. */
  checkReceiver(url: string): Promise<ReceiverCheck>;
  /** GETs a small document (a JWKS) through the same guard. @throws {Error} with a reason that people can read and that hides the URL */
  fetchGuarded(
    url: string,
    limits: { readonly maxBytes: number; readonly timeoutMs: number },
  ): Promise<string>;
}

export function makeHttpSender(options: HttpSenderOptions): HttpSender {
  const guard = new ReceiverGuard({
    allowPrivate: options.allowPrivate,
    resolve: options.resolve ?? makeSystemResolver(),
    resolveTimeoutMs: RESOLVE_TIMEOUT_MS,
  });
  const { maxConnectionsPerReceiver = CONNECTIONS_PER_RECEIVER } = options;
  const pools = new PoolCache({
    guard,
    maxConnectionsPerReceiver,
    maxKeptConnections: options.maxKeptConnections ?? Number.POSITIVE_INFINITY,
    connectTimeoutMs: options.timeoutMs,
    idleTimeoutMs: options.idleTimeoutMs ?? IDLE_TIMEOUT_MS,
    connectionAgeMs: options.connectionAgeMs ?? CONNECTION_AGE_MS,
    maxResponseHeaderBytes: MAX_RESPONSE_HEADER_BYTES,
    ca: options.ca,
  });

  const limits = new TryLimits();
  const tryBounds = { maxBytes: MAX_READ_BYTES, timeoutMs: options.timeoutMs };

  return {
    async send(request, signal, onSent) {
      signal.throwIfAborted();
      const startedMs = performance.now();
      const latencyMs = () => Math.round(performance.now() - startedMs);
      const begun: { exchange?: Exchange } = {};
      try {
        const receiver = guard.parse(request.url);
        const { url } = receiver;
        const toSend: RequestToSend = {
          method: "POST",
          path: url.pathname + url.search,
          headers: request.headers.flatMap(([name, value]) => [name, headerBytes(value)]),
          body: request.body,
        };
        const answer = await pools.use(request.url, receiver, (pool) => {
          begun.exchange = new Exchange(pool, toSend, tryBounds, onSent);
          return limits.within(begun.exchange, signal);
        });
        return {
          kind: "response",
          status: answer.status,
          retryAfter: answer.retryAfter,
          date: answer.date,
          body: answer.isEncoded
            ? "[response body is compressed and was not decoded]"
            : boundedText(answer.bytes, MAX_RESPONSE_BODY_BYTES),
          latencyMs: latencyMs(),
        };
      } catch (error) {
        if (error instanceof DeadlineError)
          return {
            kind: "timeout",
            reason: timeoutReason(error.waitsFor, options.timeoutMs, maxConnectionsPerReceiver),
            latencyMs: latencyMs(),
            ...begun.exchange?.asks,
          };
        signal.throwIfAborted();
        const reason = failureReason(error);
        return { kind: "error", reason, latencyMs: latencyMs(), ...begun.exchange?.asks };
      }
    },

    checkReceiver: (url) => guard.check(url),

    async fetchGuarded(text, { maxBytes, timeoutMs }) {
      let answer;
      try {
        const receiver = guard.parse(text);
        const { url } = receiver;
        const toSend: RequestToSend = {
          method: "GET",
          path: url.pathname + url.search,
          headers: ["accept", "application/json"],
          body: null,
        };
        answer = await pools.use(text, receiver, (pool) =>
          limits.within(new Exchange(pool, toSend, { maxBytes, timeoutMs }), null),
        );
      } catch (error) {
        const reason =
          error instanceof DeadlineError
            ? `no answer within ${timeoutMs} ms`
            : failureReason(error);
        throw new Error(reason, { cause: error });
      }
      if (answer.status !== 200) throw new Error(`it answered ${answer.status}`);
      if (!answer.isWhole) throw new Error(`it is larger than ${maxBytes} bytes`);
      // Leaves out the byte order mark with which some files begin, and which is no JSON (RFC 8259 section 8.1).
      return new TextDecoder().decode(answer.bytes);
    },

    [Symbol.asyncDispose]: () => pools[Symbol.asyncDispose](),
  };
}

function timeoutReason(
  waitsFor: DeadlineError["waitsFor"],
  timeoutMs: number,
  maxConnections: number,
): string {
  switch (waitsFor) {
    case "answer":
      return `no complete answer within ${timeoutMs} ms`;
    case "connection":
      return `no connection within ${timeoutMs} ms: nothing was sent`;
    case "free connection":
      return `no connection within ${timeoutMs} ms: nothing was sent, since more tries to this URL were under way than the ${maxConnections} that one process makes at once`;
    default:
      return waitsFor satisfies never;
  }
}
