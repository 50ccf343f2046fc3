import { makeHttpSender, type HttpSender } from "../adapters/undici/http-sender.ts";
import type { RelayConfig } from "../config/config.ts";
import type { Clock } from "../domain/clock.ts";
import { parseCidrs } from "../domain/ip.ts";
import { DEFAULT_DELIVERY_OPTIONS } from "../pipeline/deliver/ports.ts";
import { makeJwksCache } from "../pipeline/verify/jwks-cache.ts";

/**
 * The one way out of the relay: receivers and key sets are reached through its guard. Lanes and the send gate bound the
 * tries in flight, and with them the connections: a try that waited for one here would wait at the expense of its own time.
 */
export function openSender(
  config: Pick<RelayConfig, "allowPrivateReceivers" | "deliveryTimeoutMs">,
): HttpSender {
  return makeHttpSender({
    allowPrivate: parseCidrs(config.allowPrivateReceivers),
    timeoutMs: config.deliveryTimeoutMs,
    maxConnectionsPerReceiver: DEFAULT_DELIVERY_OPTIONS.maxInFlight,
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
