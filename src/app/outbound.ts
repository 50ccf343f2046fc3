import {
  CONNECTIONS_PER_RECEIVER,
  makeHttpSender,
  type HttpSender,
} from "../adapters/undici/http-sender.ts";
import type { RelayConfig } from "../config/config.ts";
import type { Clock } from "../domain/clock.ts";
import { parseCidrs } from "../domain/ip.ts";
import { makeJwksCache } from "../pipeline/verify/jwks-cache.ts";

/**
 * The one way out of the relay: receivers and key sets are reached through its guard. A destination has all the connections
 * that its tries in flight may want: one that waited here would wait at the expense of its own time.
 */
export function openSender(
  config: Pick<RelayConfig, "allowPrivateReceivers" | "deliveryTimeoutMs" | "deliveryConcurrency">,
): HttpSender {
  return makeHttpSender({
    allowPrivate: parseCidrs(config.allowPrivateReceivers),
    timeoutMs: config.deliveryTimeoutMs,
    maxConnectionsPerReceiver: Math.max(CONNECTIONS_PER_RECEIVER, config.deliveryConcurrency),
  });
}

/** The key sets that JWT endpoints name by URL, fetched through the guard and kept. */
export function openJwks(
  sender: Pick<HttpSender, "fetchGuarded">,
  clock: Pick<Clock, "monotonic">,
): ReturnType<typeof makeJwksCache> {
  return makeJwksCache({
    fetchJwks: (url, limits) => sender.fetchGuarded(url, limits),
    monotonicMs: () => clock.monotonic(),
  });
}
