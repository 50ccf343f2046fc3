import { setMaxListeners } from "node:events";
import type { Pool } from "undici";
import type { CidrList } from "../../domain/ip.ts";
import { ConnectFailedError, failureReason } from "./failure-reason.ts";
import { PoolCache } from "./pool-cache.ts";
import { boundedText, readBounded } from "./read-body.ts";
import { ReceiverGuard, ReceiverRefusedError, type ReceiverCheck } from "./receiver-guard.ts";
import { makeSystemResolver, type ResolveHost } from "./resolve-host.ts";

const MAX_READ_BYTES = 64 * 1024;
const MAX_TEXT_BYTES = 16 * 1024;
const MAX_RESPONSE_HEADER_BYTES = 16 * 1024;

export interface OutboundRequest {
  readonly url: string;
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly body: Uint8Array;
}

/** What became of one try. `latencyMs` counts from the call to the last byte (or the failure). */
export type Reply =
  | {
      readonly kind: "response";
      readonly status: number;
      readonly retryAfter: string | null;
      /** At most 16 KiB. */
      readonly body: string;
      readonly latencyMs: number;
    }
  | { readonly kind: "timeout"; readonly reason: string; readonly latencyMs: number }
  | {
      readonly kind: "error";
      readonly reason: string;
      readonly latencyMs: number;
      /** False when no byte of the request can have reached the receiver. */
      readonly requestSent: boolean;
    };

export interface HttpSenderOptions {
  readonly allowPrivate: CidrList;
  /** Whole try, connect to last byte. */
  readonly timeoutMs: number;
  readonly resolve?: ResolveHost;
  readonly maxConnectionsPerOrigin?: number;
  readonly idleTimeoutMs?: number;
  /** PEM certificates trusted instead of the system's. */
  readonly ca?: string;
}

export interface HttpSender extends AsyncDisposable {
  /** POSTs; redirects are not followed, nothing is inflated. Never rejects for what the receiver does. @throws the signal's reason when aborted */
  send(request: OutboundRequest, signal: AbortSignal): Promise<Reply>;
  /** The check at write time: text, policy and resolution. */
  checkReceiver(url: string): Promise<ReceiverCheck>;
  /** GETs a small document (a JWKS) through the same guard. @throws {Error} with a reason for people */
  fetchGuarded(
    url: string,
    limits: { readonly maxBytes: number; readonly timeoutMs: number },
  ): Promise<string>;
  /** Origins with an open pool. */
  readonly poolCount: number;
}

export function makeHttpSender(options: HttpSenderOptions): HttpSender {
  const guard = new ReceiverGuard({
    allowPrivate: options.allowPrivate,
    resolve: options.resolve ?? makeSystemResolver(),
    resolveTimeoutMs: 3_000,
  });
  const pools = new PoolCache({
    guard,
    maxConnectionsPerOrigin: options.maxConnectionsPerOrigin ?? 64,
    connectTimeoutMs: options.timeoutMs,
    idleTimeoutMs: options.idleTimeoutMs ?? 30_000,
    maxResponseHeaderBytes: MAX_RESPONSE_HEADER_BYTES,
    ...(options.ca === undefined ? {} : { ca: options.ca }),
  });

  return {
    async send(request, signal) {
      signal.throwIfAborted();
      const startedMs = performance.now();
      const latencyMs = () => Math.round(performance.now() - startedMs);
      using deadline = startDeadline(options.timeoutMs, signal);
      try {
        const { url, privateOnly } = guard.parse(request.url);
        const answer = await pools.use(url.origin, privateOnly, (pool) =>
          exchange(pool, url, "POST", request, deadline.signal, MAX_READ_BYTES),
        );
        return {
          kind: "response",
          status: answer.status,
          retryAfter: answer.retryAfter,
          body: answer.isEncoded
            ? "[response body is compressed and was not decoded]"
            : boundedText(answer.bytes, MAX_TEXT_BYTES),
          latencyMs: latencyMs(),
        };
      } catch (error) {
        if (deadline.expired)
          return {
            kind: "timeout",
            reason: `no complete answer within ${options.timeoutMs} ms`,
            latencyMs: latencyMs(),
          };
        signal.throwIfAborted();
        return {
          kind: "error",
          reason: failureReason(error),
          latencyMs: latencyMs(),
          requestSent: !(
            error instanceof ConnectFailedError || error instanceof ReceiverRefusedError
          ),
        };
      }
    },

    checkReceiver: (url) => guard.check(url),

    async fetchGuarded(text, { maxBytes, timeoutMs }) {
      using deadline = startDeadline(timeoutMs, null);
      let answer;
      try {
        const { url, privateOnly } = guard.parse(text);
        const request = { headers: [["accept", "application/json"]] as const, body: null };
        answer = await pools.use(url.origin, privateOnly, (pool) =>
          exchange(pool, url, "GET", request, deadline.signal, maxBytes),
        );
      } catch (error) {
        const reason = deadline.expired ? `no answer within ${timeoutMs} ms` : failureReason(error);
        throw new Error(`cannot fetch ${text}: ${reason}`, { cause: error });
      }
      if (answer.status !== 200)
        throw new Error(`cannot fetch ${text}: it answered ${answer.status}`);
      if (!answer.complete)
        throw new Error(`cannot fetch ${text}: it is larger than ${maxBytes} bytes`);
      return answer.bytes.toString("utf8");
    },

    get poolCount() {
      return pools.size;
    },

    [Symbol.asyncDispose]: () => pools[Symbol.asyncDispose](),
  };
}

async function exchange(
  pool: Pool,
  url: URL,
  method: "POST" | "GET",
  request: {
    readonly headers: OutboundRequest["headers"];
    readonly body: Uint8Array | null;
  },
  signal: AbortSignal,
  maxBytes: number,
) {
  const response = await pool.request({
    method,
    path: url.pathname + url.search,
    headers: request.headers.flat(),
    body: request.body,
    signal,
  });
  const { bytes, complete } = await readBounded(response.body, maxBytes);
  const encoding = firstValue(response.headers["content-encoding"]);
  return {
    status: response.statusCode,
    retryAfter: firstValue(response.headers["retry-after"]),
    isEncoded: encoding !== null && encoding.toLowerCase() !== "identity" && bytes.length > 0,
    bytes,
    complete,
  };
}

function firstValue(value: string | string[] | undefined): string | null {
  return (Array.isArray(value) ? value[0] : value) ?? null;
}

/** Aborts at the deadline or with the caller's signal, whichever comes first; disposed, it leaves no timer and no listener. */
function startDeadline(timeoutMs: number, outer: AbortSignal | null) {
  const controller = new AbortController();
  const state = { expired: false };
  const timer = setTimeout(() => {
    state.expired = true;
    controller.abort();
  }, timeoutMs);
  const onAbort = () => controller.abort();
  if (outer !== null) setMaxListeners(0, outer); // One signal stops all tries in flight: many listeners are right.
  outer?.addEventListener("abort", onAbort, { once: true });
  return {
    signal: controller.signal,
    get expired() {
      return state.expired;
    },
    [Symbol.dispose]() {
      clearTimeout(timer);
      outer?.removeEventListener("abort", onAbort);
    },
  };
}
