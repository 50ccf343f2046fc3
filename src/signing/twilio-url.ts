import { Buffer, isUtf8 } from "node:buffer";

/**
 * Returns the spellings of a URL that Twilio may have signed. Its libraries disagree, so each of their variants is
 * tried: the port as given, left out, or the scheme's own; the query as received, re-encoded by Node's querystring
 * rules, or with the apostrophe encoded as `new URL` does. Nothing else is normalised: the case of the host, double
 * slashes and the order of parameters are significant.
 */
export function twilioUrlSpellings(url: string): string[] {
  const match = /^(https?):\/\/([^/?#]*)([^?#]*)(\?[^#]*)?/i.exec(url);
  if (match === null) return [url];
  const [, scheme = "", authority = "", path = "", query = ""] = match;
  const searches = querySpellings(query);
  const spellings = new Set<string>();
  for (const host of hostSpellings(scheme, authority)) {
    for (const search of searches) {
      spellings.add(`${scheme}://${host}${path}${search}`);
    }
  }
  return [...spellings];
}

function hostSpellings(scheme: string, authority: string): string[] {
  const port = /:\d*$/.exec(authority);
  const bare = port === null ? authority : authority.slice(0, port.index);
  const standard = scheme.toLowerCase() === "https" ? "443" : "80";
  return [authority, bare, `${bare}:${standard}`];
}

function querySpellings(query: string): string[] {
  if (query.length <= 1) return [query];
  return [query, `?${reencode(query.slice(1))}`, query.replaceAll("'", "%27")];
}

/** Does what `querystring.stringify(querystring.parse(query))` does: leaves ! ' ( ) * ~ as they are, groups equal names. */
function reencode(query: string): string {
  const groups = new Map<string, string[]>();
  for (const pair of query.split("&")) {
    if (pair === "") continue;
    const equals = pair.indexOf("=");
    const name = decodeComponent(equals < 0 ? pair : pair.slice(0, equals));
    const value = decodeComponent(equals < 0 ? "" : pair.slice(equals + 1));
    const group = groups.get(name);
    if (group === undefined) groups.set(name, [value]);
    else group.push(value);
  }
  const pairs: string[] = [];
  for (const [name, values] of groups) {
    for (const value of values) {
      pairs.push(`${encodeComponent(name)}=${encodeComponent(value)}`);
    }
  }
  return pairs.join("&");
}

const BROKEN_ESCAPE = /%(?![0-9a-f]{2})/i;
const ESCAPES = /(?:%[0-9a-f]{2})+/gi;

/**
 * Decodes like `decodeURIComponent`, but leaves invalid percent-encoding undecoded instead of throwing: the error costs
 * a hundred times as much as decoding, and anybody may send, without a secret, a query with thousands of such texts.
 */
function decodeComponent(text: string): string {
  const spaced = text.replaceAll("+", " ");
  if (!spaced.includes("%") || BROKEN_ESCAPE.test(spaced)) return spaced;
  let isText = true;
  const decoded = spaced.replaceAll(ESCAPES, (escapes) => {
    const bytes = Buffer.from(escapes.replaceAll("%", ""), "hex");
    isText &&= isUtf8(bytes);
    return bytes.toString("utf8");
  });
  return isText ? decoded : spaced;
}

/** Leaves half a surrogate pair as it is: it cannot be encoded, and no URL on the wire has one. */
function encodeComponent(text: string): string {
  try {
    return encodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Returns the value of a query parameter as written, the last one when there are several: Twilio appends its own. */
export function lastQueryValue(url: string, name: string): string | null {
  const start = url.indexOf("?");
  if (start < 0) return null;
  const query = url.slice(start + 1).split("#", 1)[0] ?? "";
  const pair = query.split("&").findLast((entry) => entry.startsWith(`${name}=`));
  return pair === undefined ? null : pair.slice(name.length + 1);
}

/** Returns the URL typed in at Twilio, with the query that the request came with: Twilio appends to it. */
export function withQueryOf(configuredUrl: string, requestUrl: string): string {
  const query = /\?[^#]*/.exec(requestUrl)?.[0] ?? "";
  return `${configuredUrl.split(/[?#]/, 1)[0] ?? ""}${query}`;
}
