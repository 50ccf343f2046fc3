import { parseUrl } from "../domain/parse-url.ts";
import { isPercentEncoded, isPort } from "./value-types.ts";

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
  const url = parseUrl(parsable);
  if (url === null) return null;
  // What an unescaped / ? or # in a password leaves behind when the part before it reads like a port.
  const isCutApart =
    url.pathname.includes("@") ||
    url.hash !== "" ||
    (url.username === "" && url.pathname === "" && url.search.includes("@"));
  const hosts = [url.hostname, ...url.searchParams.getAll("host")];
  // `pg` takes an empty port for none.
  const ports = url.searchParams.getAll("port").filter((port) => port !== "");
  const isMalformed = isCutApart || hosts.some((host) => host.includes(","));
  return isMalformed || !ports.every(isPort) ? null : url;
}

/**
 * Parameters for TLS that `pg` reads, with the values that it knows; null: any that is not empty. It ignores other parameters, and then connects
 * without TLS. Other values of `sslmode` it overlooks, of `sslnegotiation` it tells only when it connects, and with those of `ssl` it
 * throws in the middle of connecting, where nothing catches it.
 */
const TLS_PARAMETERS: ReadonlyMap<string, readonly string[] | null> = new Map([
  ["ssl", ["true", "1", "0", "no-verify"]],
  ["sslcert", null],
  ["sslkey", null],
  ["sslmode", ["disable", "prefer", "require", "verify-ca", "verify-full", "no-verify"]],
  ["sslnegotiation", ["postgres", "direct"]],
  ["sslrootcert", null],
]);

/** Returns false where the URI has a parameter for TLS that is not understood: a mistyped name, no value or a wrong one. */
export function readsTlsParameters(text: string): boolean {
  return [...(parseDatabaseUrl(text)?.searchParams ?? [])].every(
    ([name, value]) => !/^(?:ssl|tls)/i.test(name) || isTlsParameter(name, value),
  );
}

function isTlsParameter(name: string, value: string): boolean {
  const values = TLS_PARAMETERS.get(name);
  return values === null ? value !== "" : values?.includes(value) === true;
}
