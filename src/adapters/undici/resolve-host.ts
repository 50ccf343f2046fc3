import { lookup, Resolver } from "node:dns/promises";
import { setTimeout as pause } from "node:timers/promises";
import { isPublicName } from "../../domain/receiver-url.ts";
import { codeOf } from "../../domain/thrown.ts";
import { followSystemDns, inHostsFile } from "./system-dns.ts";

/** Finds every address of a host name, IPv4 and IPv6. Rejects with a `code` as node:dns does (ENOTFOUND, ETIMEOUT, …). */
export type ResolveHost = (host: string) => Promise<readonly string[]>;

/** How long the addresses of one family wait for the other's: some DNS servers never answer for IPv6. */
const OTHER_FAMILY_MS = 500;

/** The answer of DNS for a name in one family. */
interface FamilyAnswer {
  readonly addresses: readonly string[];
  readonly failures: readonly unknown[];
}

const SILENT: FamilyAnswer = { addresses: [], failures: [] };
const NO_SUCH_NAME: ReadonlySet<unknown> = new Set(["ENOTFOUND", "ENODATA"]);

export interface SystemResolverOptions {
  /** Of one question to one server, at first. */
  readonly timeoutMs?: number;
  readonly tries?: number;
  /** Servers to ask instead of the system's, each time that those have changed. */
  readonly servers?: () => readonly string[];
  readonly resolverFile?: string;
  readonly askSystem?: ResolveHost;
}

/**
 * Makes a resolver that asks DNS without the thread pool: with getaddrinfo, a few names with a hanging server would stall every other
 * lookup, those of the stores as well. So the hosts file and the domains to search are looked through here, and the system is asked
 * only for names that no owner of a domain could make hang (of mDNS and the like), or where there is no DNS server.
 */
export function makeSystemResolver(options: SystemResolverOptions = {}): ResolveHost {
  const { timeoutMs = 2_000, tries = 2, servers, askSystem = lookupAll } = options;
  const systemDns = followSystemDns(() => {
    const resolver = new Resolver({ timeout: timeoutMs, tries });
    if (servers !== undefined) resolver.setServers(servers());
    return resolver;
  }, options.resolverFile);
  return async (host) => {
    const { resolver, searchDomains } = await systemDns();
    let { addresses, failure } = await ask(resolver, host);
    if (addresses.length === 0) addresses = await inHostsFile(host);
    for (const domain of searchDomains) {
      if (addresses.length > 0 || !isUnknownName(failure)) break;
      ({ addresses, failure } = await ask(resolver, `${host}.${domain}`));
    }
    if (addresses.length > 0) return addresses;
    const isSystemsTurn = isUnknownName(failure)
      ? !isPublicName(host)
      : codeOf(failure) === "ECONNREFUSED";
    if (isSystemsTurn) return askSystem(host);
    throw failure;
  };
}

async function lookupAll(host: string): Promise<readonly string[]> {
  return (await lookup(host, { all: true })).map((entry) => entry.address);
}

/** Asks for both families. A `failure` that is not of an unknown name comes first. */
async function ask(
  resolver: Resolver,
  name: string,
): Promise<{ readonly addresses: readonly string[]; readonly failure: unknown }> {
  const ipv4 = answerOf(() => resolver.resolve4(name));
  const ipv6 = answerOf(() => resolver.resolve6(name));
  const answers = await Promise.all([unlessSilent(ipv4, ipv6), unlessSilent(ipv6, ipv4)]);
  const failures = answers.flatMap((answer) => answer.failures);
  return {
    addresses: answers.flatMap((answer) => answer.addresses),
    failure: failures.find((failure) => !isUnknownName(failure)) ?? failures[0],
  };
}

/**
 * Repeats a question that ended with EDESTRUCTION: when a server on this machine has refused, Node makes a new channel for the next
 * question, which ends whatever others had asked on the old one.
 */
async function answerOf(ask: () => Promise<string[]>, triesLeft = 3): Promise<FamilyAnswer> {
  try {
    return { addresses: await ask(), failures: [] };
  } catch (error) {
    if (codeOf(error) === "EDESTRUCTION" && triesLeft > 1) return answerOf(ask, triesLeft - 1);
    return { addresses: [], failures: [error] };
  }
}

/** Returns the answer, or nothing once the other family has had its addresses for a while. */
async function unlessSilent(
  answer: Promise<FamilyAnswer>,
  other: Promise<FamilyAnswer>,
): Promise<FamilyAnswer> {
  const givenUp = other.then(({ addresses }) =>
    addresses.length === 0 ? answer : pause(OTHER_FAMILY_MS, SILENT, { ref: false }),
  );
  return Promise.race([answer, givenUp]);
}

/** Returns whether DNS says that there is no such name, rather than that it does not know. */
export function isUnknownName(error: unknown): boolean {
  return NO_SUCH_NAME.has(codeOf(error));
}
