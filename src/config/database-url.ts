import { isPercentEncoded } from "./value-types.ts";

/**
 * Parses a PostgreSQL connection URI (libpq, "Connection URIs") as `pg` understands it. Returns null for one that names
 * several hosts or whose user information is not percent-encoded. The host may be empty where the query names it.
 */
export function parseDatabaseUrl(text: string): URL | null {
  // A % that begins no escape stands for itself.
  const escaped = text.replaceAll(/%(?![0-9a-f]{2})/gi, "%25");
  if (!/^postgres(?:ql)?:\/\//.test(text) || !isPercentEncoded(escaped)) return null;
  // `URL` requires a host after user information, so the latter is left out where the host is empty.
  const parsable = text.replace(/^([a-z]+:\/\/)[^/?#]*@(?=\/)/, "$1");
  if (!URL.canParse(parsable)) return null;
  const url = new URL(parsable);
  // What an unescaped / ? or # in a password leaves behind when the part before it reads like a port.
  const isCutApart =
    url.pathname.includes("@") ||
    url.hash !== "" ||
    (url.username === "" && url.pathname === "" && url.search.includes("@"));
  const hosts = [url.hostname, ...url.searchParams.getAll("host")];
  return isCutApart || hosts.some((host) => host.includes(",")) ? null : url;
}

/** TLS parameters that `pg` reads; it ignores any other, and then connects without TLS. */
const TLS_PARAMETERS: ReadonlySet<string> = new Set([
  "ssl",
  "sslcert",
  "sslkey",
  "sslmode",
  "sslnegotiation",
  "sslrootcert",
]);

/** Returns false where the URI asks for TLS with a parameter that would be ignored: a mistyped or an empty one. */
export function readsTlsParameters(text: string): boolean {
  return [...(parseDatabaseUrl(text)?.searchParams ?? [])].every(
    ([name, value]) => !/^(?:ssl|tls)/i.test(name) || (TLS_PARAMETERS.has(name) && value !== ""),
  );
}
