import { isIPv6 } from "node:net";

/** Returns the URL at which a listener is reached from this machine. */
export function baseUrlOf(host: string, port: number): string {
  if (host === "0.0.0.0" || host === "::") return `http://localhost:${port}`;
  return `http://${isIPv6(host) ? `[${host}]` : host}:${port}`;
}
