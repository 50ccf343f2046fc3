import { SocketAddress } from "node:net";
import type { HttpResponse } from "uWebSockets.js";

const IPV4_BYTES = 4;
const IPV6_BYTES = 16;

/** Peers whose text is kept; a provider sends from few addresses. */
const MAX_KEPT = 10_000;

/** Makes a reader of the peer's address as text: IPv4 (mapped IPv6 too) dotted, IPv6 compressed; empty when the socket is gone. */
export function makeAddressReader(): (response: HttpResponse) => string {
  const kept = new Map<number, string>();
  return (response) => {
    const bytes = new Uint8Array(response.getRemoteAddress());
    if (bytes.length !== IPV4_BYTES) return formatAddress(bytes);
    const [a = 0, b = 0, c = 0, d = 0] = bytes;
    const key = ((a * 256 + b) * 256 + c) * 256 + d;
    let text = kept.get(key);
    if (text === undefined) {
      if (kept.size >= MAX_KEPT) kept.clear();
      text = formatAddress(bytes);
      kept.set(key, text);
    }
    return text;
  };
}

export function formatAddress(bytes: Uint8Array): string {
  if (bytes.length === IPV4_BYTES) return bytes.join(".");
  if (bytes.length !== IPV6_BYTES) return "";
  if (isMapped(bytes)) return bytes.subarray(IPV6_BYTES - IPV4_BYTES).join(".");
  const groups: string[] = [];
  for (let index = 0; index < IPV6_BYTES; index += 2)
    groups.push((((bytes[index] ?? 0) << 8) | (bytes[index + 1] ?? 0)).toString(16));
  return new SocketAddress({ address: groups.join(":"), family: "ipv6" }).address;
}

/** `::ffff:0:0/96` (RFC 4291, 2.5.5.2): how a dual-stack socket shows IPv4. */
function isMapped(bytes: Uint8Array): boolean {
  return bytes[10] === 0xff && bytes[11] === 0xff && bytes.subarray(0, 10).every((b) => b === 0);
}
