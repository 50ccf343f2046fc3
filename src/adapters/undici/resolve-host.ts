import { lookup, Resolver } from "node:dns/promises";
import { readFile } from "node:fs/promises";
import { setTimeout as pause } from "node:timers/promises";

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
const HOSTS_FILE = "/etc/hosts";
const NO_SUCH_NAME: ReadonlySet<unknown> = new Set(["ENOTFOUND", "ENODATA"]);

/**
 * Makes a resolver that asks DNS without the thread pool (with getaddrinfo, four names with a hanging server would stall every
 * other lookup), and the system only for names that DNS does not know: those of a hosts file. If DNS does not answer, that file is read.
 */
export function makeSystemResolver(
  timeoutMs = 2_000,
  tries = 2,
  servers: readonly string[] | null = null,
): ResolveHost {
  const resolver = new Resolver({ timeout: timeoutMs, tries });
  if (servers !== null) resolver.setServers(servers);
  return async (host) => {
    const ipv4 = answerOf(() => resolver.resolve4(host));
    const ipv6 = answerOf(() => resolver.resolve6(host));
    const answers = await Promise.all([unlessSilent(ipv4, ipv6), unlessSilent(ipv6, ipv4)]);
    const addresses = answers.flatMap((answer) => answer.addresses);
    if (addresses.length > 0) return addresses;
    const failures = answers.flatMap((answer) => answer.failures);
    const unanswered = failures.find((failure) => !NO_SUCH_NAME.has(codeOf(failure)));
    if (unanswered !== undefined && codeOf(unanswered) !== "ECONNREFUSED") {
      const own = await inHostsFile(host);
      if (own.length > 0) return own;
      throw unanswered;
    }
    return (await lookup(host, { all: true })).map((entry) => entry.address);
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

/** Reads the file itself, since the system would ask the silent DNS for all other names, on the thread pool. */
async function inHostsFile(host: string): Promise<readonly string[]> {
  const text = await readFile(HOSTS_FILE, "utf8").catch(() => "");
  return text
    .split("\n")
    .map((line) => line.split("#", 1)[0]!.trim().toLowerCase().split(/\s+/))
    .filter(([, ...names]) => names.includes(host.toLowerCase()))
    .map(([address]) => address!);
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

/** Returns an error's `code`; null if it has none. */
export function codeOf(error: unknown): string | null {
  if (typeof error !== "object" || error === null || !("code" in error)) return null;
  return typeof error.code === "string" ? error.code : null;
}
