import ipaddr from "ipaddr.js";

type Ip = ipaddr.IPv4 | ipaddr.IPv6;
type Range = readonly [network: Ip, bits: number];

/** Parsed CIDRs (single addresses are /32 or /128). IPv4-mapped networks are held as IPv4. */
export interface CidrList {
  readonly ranges: readonly Range[];
}

export const NO_CIDRS: CidrList = { ranges: [] };

const MAPPED_PREFIX_BITS = 96;

/** IANA IPv4 special-purpose registry, multicast, and the address of Azure's platform services. */
const SPECIAL_IPV4 = parseCidrs([
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  "168.63.129.16/32",
  "169.254.0.0/16",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.0.2.0/24",
  "192.31.196.0/24",
  "192.52.193.0/24",
  "192.88.99.0/24",
  "192.168.0.0/16",
  "192.175.48.0/24",
  "198.18.0.0/15",
  "198.51.100.0/24",
  "203.0.113.0/24",
  "224.0.0.0/4",
  "240.0.0.0/4",
]);
const GLOBAL_UNICAST_IPV6 = parseCidrs(["2000::/3"]);
/** Inside global unicast, yet not a place to deliver to: protocol assignments, documentation, 6to4, AS112. */
const SPECIAL_IPV6 = parseCidrs([
  "2001::/23",
  "2001:db8::/32",
  "2002::/16",
  "2620:4f:8000::/48",
  "3fff::/20",
]);

/**
 * Parses canonical dotted-quad IPv4, or IPv6 without zone and brackets; returns null for anything else (octal, short forms,
 * zone ids). IPv4-mapped IPv6 becomes the IPv4 address that it stands for.
 */
function parseIp(text: string): Ip | null {
  if (ipaddr.IPv4.isValidFourPartDecimal(text)) return ipaddr.IPv4.parse(text);
  if (!text.includes(":") || text.includes("%")) return null;
  const groups = withoutDottedQuad(text);
  if (groups === null || !ipaddr.IPv6.isValid(groups)) return null;
  const address = ipaddr.IPv6.parse(groups);
  return address.isIPv4MappedAddress() ? address.toIPv4Address() : address;
}

/**
 * Rewrites a dotted quad at the end of an IPv6 address as groups (RFC 4291 §2.2); returns null when it is not a valid quad. The
 * library would accept octal and hex there, and take `::192.0.2.1` for a mapped address, which it is not.
 */
function withoutDottedQuad(text: string): string | null {
  if (!text.includes(".")) return text;
  const start = text.lastIndexOf(":") + 1;
  const quad = text.slice(start);
  if (!ipaddr.IPv4.isValidFourPartDecimal(quad)) return null;
  const [a = 0, b = 0, c = 0, d = 0] = ipaddr.IPv4.parse(quad).octets;
  return `${text.slice(0, start)}${(a * 256 + b).toString(16)}:${(c * 256 + d).toString(16)}`;
}

export function isIpAddress(text: string): boolean {
  return parseIp(text) !== null;
}

/** Returns the canonical form of an address (RFC 5952; IPv4-mapped IPv6 as IPv4); null when the text is not an address. */
export function canonicalIp(text: string): string | null {
  return parseIp(text)?.toString() ?? null;
}

/** Returns true for addresses on the public internet. What cannot be parsed is not public: the guard fails closed. */
export function isPublicAddress(text: string): boolean {
  const address = parseIp(text);
  if (address === null) return false;
  return address.kind() === "ipv4"
    ? !isInside(address, SPECIAL_IPV4)
    : isInside(address, GLOBAL_UNICAST_IPV6) && !isInside(address, SPECIAL_IPV6);
}

/**
 * Parses addresses and CIDRs (`10.0.0.0/8`, `::1`); host bits are ignored.
 * @throws {Error} naming the entry that is neither
 */
export function parseCidrs(texts: readonly string[]): CidrList {
  return { ranges: texts.map((text) => parseCidr(text.trim())) };
}

/** Returns true when the address lies in one of the ranges; IPv4-mapped addresses are compared as IPv4. */
export function matchesCidr(text: string, list: CidrList): boolean {
  const address = parseIp(text);
  return address !== null && isInside(address, list);
}

function parseCidr(text: string): Range {
  const slash = text.indexOf("/");
  const addressText = slash === -1 ? text : text.slice(0, slash);
  const address = parseIp(addressText);
  if (address === null) throw notACidr(text);
  const widthBits = address.kind() === "ipv4" ? 32 : 128;
  if (slash === -1) return [address, widthBits];
  const bitsText = text.slice(slash + 1);
  if (!/^(0|[1-9]\d{0,2})$/.test(bitsText)) throw notACidr(text);
  const isMapped = widthBits === 32 && addressText.includes(":");
  const bits = Number(bitsText) - (isMapped ? MAPPED_PREFIX_BITS : 0);
  if (bits < 0 || bits > widthBits) throw notACidr(text);
  return [address, bits];
}

function notACidr(text: string): Error {
  return new Error(`"${text}" is neither an IP address nor a CIDR such as 10.0.0.0/8 or ::1/128`);
}

function isInside(address: Ip, list: CidrList): boolean {
  return list.ranges.some(
    ([network, bits]) => address.kind() === network.kind() && address.match(network, bits),
  );
}
