import {
  CONNECTIONS_PER_RECEIVER,
  makeHttpSender,
  type HttpSender,
} from "../adapters/undici/http-sender.ts";
import type { RelayConfig } from "../config/config.ts";
import type { Clock } from "../domain/clock.ts";
import { parseCidrs } from "../domain/ip.ts";
import { makeJwksCache } from "../pipeline/verify/jwks-cache.ts";
import { connectionLimit } from "./connection-limit.ts";

type ConnectionConfig = Pick<RelayConfig, "deliveryConcurrency">;

/** Returns enough connections for all the tries that a destination may have in flight. */
export function connectionsPerReceiver({ deliveryConcurrency }: ConnectionConfig): number {
  return Math.max(CONNECTIONS_PER_RECEIVER, deliveryConcurrency);
}

/**
 * Opens the relay's only way out: receivers and key sets are reached through its guard. A try that waited here for a
 * connection would lose that from its own time.
 */
export function openSender(
  config: ConnectionConfig & Pick<RelayConfig, "allowPrivateReceivers" | "deliveryTimeoutMs">,
): HttpSender {
  return makeHttpSender({
    allowPrivate: parseCidrs(config.allowPrivateReceivers),
    timeoutMs: config.deliveryTimeoutMs,
    maxConnectionsPerReceiver: connectionsPerReceiver(config),
    maxKeptConnections: connectionLimit("delivery"),
  });
}

/** Opens the cache of key sets that JWT endpoints name by URL, fetched through the guard. */
export function openJwks(
  sender: Pick<HttpSender, "fetchGuarded">,
  clock: Pick<Clock, "monotonic" | "schedule">,
): ReturnType<typeof makeJwksCache> {
  return makeJwksCache({
    fetchJwks: (url, limits) => sender.fetchGuarded(url, limits),
    clock,
  });
}
