import { isPercentEncoded } from "./value-types.ts";

/**
 * A connection URI of PostgreSQL (libpq, "Connection URIs") as `pg` understands it; null for one that names several
 * hosts or whose user information is not percent-encoded. The host may be empty where the query names it.
 */
export function parseDatabaseUrl(text: string): URL | null {
  // A % that begins no escape stands for itself.
  const escaped = text.replaceAll(/%(?![0-9a-f]{2})/gi, "%25");
  if (!/^postgres(?:ql)?:\/\//.test(text) || !isPercentEncoded(escaped)) return null;
  // A URL with user information must have a host; one without need not.
  const parsable = text.replace(/^([a-z]+:\/\/)[^/?#]*@(?=\/)/, "$1");
  if (!URL.canParse(parsable)) return null;
  const url = new URL(parsable);
  // What an unescaped / ? or # of a password leaves behind, where the part before it reads like a port.
  const isCutApart =
    url.pathname.includes("@") ||
    url.hash !== "" ||
    (url.username === "" && url.pathname === "" && url.search.includes("@"));
  const hosts = [url.hostname, ...url.searchParams.getAll("host")];
  return isCutApart || hosts.some((host) => host.includes(",")) ? null : url;
}

/** What `pg` reads of TLS; it overlooks any other parameter, and then connects without. */
const TLS_PARAMETERS: ReadonlySet<string> = new Set([
  "ssl",
  "sslcert",
  "sslkey",
  "sslmode",
  "sslnegotiation",
  "sslrootcert",
]);

/** False where TLS is asked for in a way that nobody reads: with a mistyped parameter, or an empty one. */
export function readsTlsParameters(text: string): boolean {
  return [...(parseDatabaseUrl(text)?.searchParams ?? [])].every(
    ([name, value]) => !/^(?:ssl|tls)/i.test(name) || (TLS_PARAMETERS.has(name) && value !== ""),
  );
}
