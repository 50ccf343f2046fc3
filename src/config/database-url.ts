import { isPercentEncoded } from "./value-types.ts";

/**
 * Parses a PostgreSQL connection URI (libpq, "Connection URIs") as `pg` understands it. Returns null for one that names
 * several hosts or ports, a port that is none, or whose user information is not percent-encoded. The host may be empty where the query
 * names it.
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
  const isMalformed = isCutApart || hosts.some((host) => host.includes(","));
  return isMalformed || !url.searchParams.getAll("port").every(isPort) ? null : url;
}

/** Returns whether the query may name this port; `pg` takes an empty one for none. */
function isPort(text: string): boolean {
  return text === "" || (/^\d{1,5}$/.test(text) && Number(text) >= 1 && Number(text) <= 65_535);
}

/** TLS parameters that `pg` reads, besides `ssl`; it ignores any other, and then connects without TLS. */
const TLS_PARAMETERS: ReadonlySet<string> = new Set([
  "sslcert",
  "sslkey",
  "sslmode",
  "sslnegotiation",
  "sslrootcert",
]);

/** Values that `pg` knows: of `sslmode` it overlooks any other, and of `sslnegotiation` it tells only when it connects. */
const TLS_VALUES: Readonly<Record<string, readonly string[]>> = {
  sslmode: ["disable", "prefer", "require", "verify-ca", "verify-full", "no-verify"],
  sslnegotiation: ["postgres", "direct"],
};

/** Values of `ssl` that `pg` knows; with any other (`false`, `yes`) it throws in the middle of connecting, where nothing catches it. */
const SSL_VALUES: ReadonlySet<string> = new Set(["true", "1", "0", "no-verify"]);

/** Returns false where the URI has a parameter for TLS that is not understood: a mistyped name, no value or a wrong one. */
export function readsTlsParameters(text: string): boolean {
  return [...(parseDatabaseUrl(text)?.searchParams ?? [])].every(
    ([name, value]) => !/^(?:ssl|tls)/i.test(name) || isTlsParameter(name, value),
  );
}

function isTlsParameter(name: string, value: string): boolean {
  if (name === "ssl") return SSL_VALUES.has(value);
  return TLS_PARAMETERS.has(name) && value !== "" && (TLS_VALUES[name]?.includes(value) ?? true);
}
