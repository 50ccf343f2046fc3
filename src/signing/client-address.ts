import type { HeaderList } from "../domain/event.ts";
import { NO_CIDRS, canonicalIp, matchesCidr, parseCidrs } from "../domain/ip.ts";
import type { CidrList } from "../domain/ip.ts";
import { allHeaderValues } from "./request-header.ts";

/**
 * The address a request came from. `X-Forwarded-For` is believed from trusted proxies only and walked from
 * right to left: each proxy appends its peer, so the first untrusted entry is the last address that a trusted
 * proxy saw itself; what stands left of it the client may have written. In canonical form, however a proxy wrote it;
 * null when the address cannot be read.
 */
export function clientAddressOf(
  remoteAddress: string,
  headers: HeaderList,
  trustedProxies: readonly string[],
): string | null {
  const peer = canonicalIp(remoteAddress.split("%", 1)[0] ?? "");
  if (peer === null) return null;
  const trusted = trustedOf(trustedProxies);
  if (!matchesCidr(peer, trusted)) return peer;
  const hops = allHeaderValues(headers, "x-forwarded-for").join(",").split(",").reverse();
  if (hops.length > MAX_HOPS) return null;
  let client = peer;
  for (const hop of hops) {
    const text = hop.trim();
    if (text === "") continue;
    const address = canonicalIp(withoutPort(text));
    if (address === null) return null;
    client = address;
    if (!matchesCidr(address, trusted)) break;
  }
  return client;
}

/** No chain of proxies is so long; only a forger's is. */
const MAX_HOPS = 100;

/** `192.0.2.1:4711` and `[2001:db8::1]:4711` are written by some proxies. */
function withoutPort(text: string): string {
  const bracketed = /^\[([^\]]+)\](?::\d{1,5})?$/.exec(text);
  if (bracketed !== null) return bracketed[1] ?? "";
  return /^(\d{1,3}(?:\.\d{1,3}){3}):\d{1,5}$/.exec(text)?.[1] ?? text;
}

/** Reading a list costs more than all the rest of a request, and the configured one is the same array for each of them. */
const knownLists = new WeakMap<readonly string[], CidrList>();

function trustedOf(cidrs: readonly string[]): CidrList {
  let list = knownLists.get(cidrs);
  if (list === undefined) {
    list = parseTrusted(cidrs);
    knownLists.set(cidrs, list);
  }
  return list;
}

/** The configuration was checked at start; a list that cannot be read trusts nobody. */
function parseTrusted(cidrs: readonly string[]): CidrList {
  try {
    return parseCidrs(cidrs);
  } catch {
    return NO_CIDRS;
  }
}
