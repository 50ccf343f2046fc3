import {
  CONNECTIONS_PER_RECEIVER,
  makeHttpSender,
  type HttpSender,
} from "../adapters/undici/http-sender.ts";
import type { RelayConfig } from "../config/config.ts";
import type { Clock } from "../domain/clock.ts";
import { parseCidrs } from "../domain/ip.ts";
import { makeJwksCache } from "../pipeline/verify/jwks-cache.ts";

type ConnectionConfig = Pick<RelayConfig, "deliveryConcurrency">;

/** A destination has all the connections that its tries in flight may want. */
export function connectionsPerReceiver({ deliveryConcurrency }: ConnectionConfig): number {
  return Math.max(CONNECTIONS_PER_RECEIVER, deliveryConcurrency);
}

/**
 * The one way out of the relay: receivers and key sets are reached through its guard. A try that waited here for a connection
 * would wait at the expense of its own time.
 */
export function openSender(
  config: ConnectionConfig & Pick<RelayConfig, "allowPrivateReceivers" | "deliveryTimeoutMs">,
): HttpSender {
  return makeHttpSender({
    allowPrivate: parseCidrs(config.allowPrivateReceivers),
    timeoutMs: config.deliveryTimeoutMs,
    maxConnectionsPerReceiver: connectionsPerReceiver(config),
  });
}

/** The key sets that JWT endpoints name by URL, fetched through the guard and kept. */
export function openJwks(
  sender: Pick<HttpSender, "fetchGuarded">,
  clock: Pick<Clock, "monotonic" | "schedule">,
): ReturnType<typeof makeJwksCache> {
  return makeJwksCache({
    fetchJwks: (url, limits) => sender.fetchGuarded(url, limits),
    clock,
  });
}
