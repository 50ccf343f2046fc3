import type { HeaderList } from "../domain/event.ts";
import { NO_CIDRS, canonicalIp, matchesCidr, parseCidrs } from "../domain/ip.ts";
import type { CidrList } from "../domain/ip.ts";
import { trimOptionalSpace } from "../domain/optional-space.ts";
import { allHeaderValues } from "./request-header.ts";

/**
 * Returns the address a request came from, in canonical form however a proxy wrote it, or null when it cannot be read.
 * `X-Forwarded-For` is believed only from trusted proxies and read from right to left: each proxy appends its peer, so
 * the first untrusted entry is the last address that a trusted proxy saw itself; the client may have written anything
 * to its left.
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
    const text = trimOptionalSpace(hop);
    if (text === "") continue;
    const address = canonicalIp(withoutPort(text));
    if (address === null) return null;
    client = address;
    if (!matchesCidr(address, trusted)) break;
  }
  return client;
}

/** Longer than any real chain of proxies; only a forger sends more. */
const MAX_HOPS = 100;

/** Drops the port that some proxies write: `192.0.2.1:4711`, `[2001:db8::1]:4711`. */
function withoutPort(text: string): string {
  const bracketed = /^\[([^\]]+)\](?::\d{1,5})?$/.exec(text);
  if (bracketed !== null) return bracketed[1] ?? "";
  return /^(\d{1,3}(?:\.\d{1,3}){3}):\d{1,5}$/.exec(text)?.[1] ?? text;
}

/** Parsing a list costs more than the rest of a request, and the configured list is the same array for every request. */
const knownLists = new WeakMap<readonly string[], CidrList>();

function trustedOf(cidrs: readonly string[]): CidrList {
  let list = knownLists.get(cidrs);
  if (list === undefined) {
    list = parseTrusted(cidrs);
    knownLists.set(cidrs, list);
  }
  return list;
}

/** Parses a list that was checked at start; one that cannot be read trusts no proxy. */
function parseTrusted(cidrs: readonly string[]): CidrList {
  try {
    return parseCidrs(cidrs);
  } catch {
    return NO_CIDRS;
  }
}
