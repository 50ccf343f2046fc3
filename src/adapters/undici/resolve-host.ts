import { lookup, Resolver } from "node:dns/promises";

/** Every address of a host name, IPv4 and IPv6. Rejects with a `code` as node:dns does (ENOTFOUND, ETIMEOUT, …). */
export type ResolveHost = (host: string) => Promise<readonly string[]>;

const NO_SUCH_NAME: ReadonlySet<unknown> = new Set(["ENOTFOUND", "ENODATA"]);

/**
 * Asks DNS without the thread pool (getaddrinfo would let four names with a hanging server stall every other
 * lookup), and the system only for names that DNS does not know: those of a hosts file.
 */
export function makeSystemResolver(timeoutMs = 2_000, tries = 2): ResolveHost {
  const resolver = new Resolver({ timeout: timeoutMs, tries });
  return async (host) => {
    const [ipv4, ipv6] = await Promise.allSettled([
      resolver.resolve4(host),
      resolver.resolve6(host),
    ]);
    const addresses = [ipv4, ipv6].flatMap((answer) =>
      answer.status === "fulfilled" ? answer.value : [],
    );
    if (addresses.length > 0) return addresses;
    const failures = [ipv4, ipv6].flatMap((answer) =>
      answer.status === "rejected" ? [answer.reason as unknown] : [],
    );
    const unanswered = failures.find((failure) => !NO_SUCH_NAME.has(codeOf(failure)));
    if (unanswered !== undefined && codeOf(unanswered) !== "ECONNREFUSED") throw unanswered;
    return (await lookup(host, { all: true })).map((entry) => entry.address);
  };
}

/** The `code` of an error that has one. */
export function codeOf(error: unknown): string | null {
  if (typeof error !== "object" || error === null || !("code" in error)) return null;
  return typeof error.code === "string" ? error.code : null;
}
