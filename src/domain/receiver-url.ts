import { isIpAddress, isPublicAddress, matchesCidr, type CidrList } from "./ip.ts";
import { parseUrl } from "./parse-url.ts";

export type ReceiverUrlVerdict =
  | {
      readonly ok: true;
      readonly url: URL;
      /** True for plain http or a name that is not public: valid only if every address it resolves to is in `allowPrivate`. */
      readonly privateOnly: boolean;
    }
  | { readonly ok: false; readonly reason: string };

/** Hint for a developer whose receiver runs on their own machine. */
const UNLESS_ALLOWED = "(on your own machine: allow its address in RELAY_ALLOW_PRIVATE_RECEIVERS)";
const NOT_HTTPS = `must be https ${UNLESS_ALLOWED}`;

/** Maximum length of a receiver URL, in characters, both as written and as the URI that it becomes. */
export const MAX_RECEIVER_URL = 2_048;
const MAX_HOST_OCTETS = 253;
const MAX_LABEL_OCTETS = 63;

/** Ports that the Fetch standard blocks: TLS bytes must not reach a mail or chat server. https://fetch.spec.whatwg.org/#port-blocking */
const BLOCKED_PORTS: ReadonlySet<number> = new Set([
  0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102,
  103, 104, 109, 110, 111, 113, 115, 117, 119, 123, 135, 137, 139, 143, 161, 179, 389, 427, 465,
  512, 513, 514, 515, 526, 530, 531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993,
  995, 1719, 1720, 1723, 2049, 3659, 4045, 4190, 5060, 5061, 6000, 6566, 6665, 6666, 6667, 6668,
  6669, 6679, 6697, 10080,
]);

/**
 * Top-level names that never mean a host on the public internet: RFC 6761 and successors (special-use names), RFC 6762 appendix
 * G (names in private use), and names that container platforms resolve.
 */
const PRIVATE_SUFFIXES: ReadonlySet<string> = new Set([
  "alt",
  "arpa",
  "corp",
  "home",
  "internal",
  "intranet",
  "invalid",
  "lan",
  "local",
  "localdomain",
  "localhost",
  "mail",
  "onion",
  "private",
  "svc",
  "test",
]);

/**
 * Judges a receiver URL by its text alone; the adapter checks what it resolves to, at write and at connect. With
 * `allowPrivate`, private literals inside it pass, and so do plain http and names that are not public: for these
 * (`privateOnly`) {@link isAllowedAddress} has the last word on what the name resolves to.
 */
export function checkReceiverUrl(text: string, allowPrivate: CidrList): ReceiverUrlVerdict {
  // Before parsing: the host of a 400 KB URL with combining marks takes 23 s to parse.
  if (text.length > MAX_RECEIVER_URL)
    return refuse(`must not be longer than ${MAX_RECEIVER_URL} characters`);
  // oxlint-disable-next-line no-control-regex -- these are what URL parsers strip or disagree about
  if (/[\u0000-\u0020\u007f\\]/.test(text))
    return refuse("must not contain white space, control characters or backslashes");
  const authority = /^https?:\/\/([^/?#]+)/i.exec(text)?.[1];
  const url = parseUrl(text);
  if (authority === undefined || url === null)
    return refuse("must be an absolute URL such as https://example.com/hook");
  if (authority.includes("@"))
    return refuse("must not contain user information; the relay signs deliveries instead");
  if (url.protocol !== "https:" && allowPrivate.ranges.length === 0) return refuse(NOT_HTTPS);
  if (url.port !== "" && BLOCKED_PORTS.has(Number(url.port)))
    return refuse(`port ${url.port} is not allowed`);

  const literal = literalHost(url);
  if (literal !== null) {
    const privateOnly = url.protocol !== "https:";
    if (isAllowedAddress(literal, privateOnly, allowPrivate)) return { ok: true, url, privateOnly };
    return refuse(
      isPublicAddress(literal) ? NOT_HTTPS : `address ${literal} is not public ${UNLESS_ALLOWED}`,
    );
  }
  return checkName(url, allowPrivate);
}

/** What RFC 3986 allows nowhere after the authority, including a lone `%` and every `#` but the first. */
const NOT_OF_URI = /%(?![0-9A-Fa-f]{2})|(?<=#.*)#|[^\w.~:/?#@!$&'()*+,;=%-]/gsu;

/** Turns an accepted receiver URL into a URI (RFC 3986), since URL parsers accept more; one that is a URI already stays as written. */
export function toUri(text: string): string {
  const [, scheme = "", authority = "", rest = ""] =
    /^(https?:\/\/)([^/?#]*)(.*)$/is.exec(text) ?? [];
  // oxlint-disable-next-line no-control-regex -- beyond ASCII
  const host = /^[\x00-\x7f]*$/.test(authority) ? authority : new URL(text).host;
  return scheme + host + rest.replaceAll(NOT_OF_URI, encodeURIComponent);
}

/** Returns the literal address in a URL's host, without brackets; null for a name. */
export function literalHost(url: URL): string | null {
  const host = url.hostname.replace(/^\[(.*)\]$/, "$1");
  return isIpAddress(host) ? host : null;
}

/** Returns whether an address may be dialled: those of `allowPrivate` always, public ones unless `privateOnly`. */
export function isAllowedAddress(
  address: string,
  privateOnly: boolean,
  allowPrivate: CidrList,
): boolean {
  return matchesCidr(address, allowPrivate) || (!privateOnly && isPublicAddress(address));
}

/** Returns whether a host is `localhost` or a name below it: always this machine (RFC 6761 section 6.3), never looked up in DNS. */
export function isLocalhost(host: string): boolean {
  return host === "localhost" || host.endsWith(".localhost");
}

/** Returns whether a host name, without a trailing dot, may mean a host on the public internet. */
export function isPublicName(host: string): boolean {
  const labels = host.split(".");
  return labels.length > 1 && !PRIVATE_SUFFIXES.has(labels.at(-1) ?? "");
}

function checkName(url: URL, allowPrivate: CidrList): ReceiverUrlVerdict {
  // A trailing dot is the DNS root: same host, but TLS and `Host` need the name without it.
  const host = url.hostname.endsWith(".") ? url.hostname.slice(0, -1) : url.hostname;
  if (host.length > MAX_HOST_OCTETS) return refuse("host name is longer than 253 octets");
  const labels = host.split(".");
  if (labels.some((label) => label === "")) return refuse("host name has an empty label");
  if (labels.some((label) => label.length > MAX_LABEL_OCTETS))
    return refuse("host name has a label longer than 63 octets");
  if (!/^[a-z0-9._-]+$/.test(host)) return refuse("host name has characters that DNS names lack");
  if (isLocalhost(host) && !["127.0.0.1", "::1"].some((one) => matchesCidr(one, allowPrivate)))
    return refuse(`host ${host} is not public ${UNLESS_ALLOWED}`);
  const isPrivateName = !isPublicName(host);
  if (isPrivateName && allowPrivate.ranges.length === 0)
    return refuse(`host ${host} is not a public name ${UNLESS_ALLOWED}`);
  const normalized = new URL(url);
  normalized.hostname = host;
  return { ok: true, url: normalized, privateOnly: isPrivateName || url.protocol !== "https:" };
}

function refuse(reason: string): ReceiverUrlVerdict {
  return { ok: false, reason };
}
