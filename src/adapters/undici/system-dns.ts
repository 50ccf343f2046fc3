import type { Resolver } from "node:dns/promises";
import { readFile } from "node:fs/promises";

/** Where the system keeps the addresses of its DNS servers, and the domains to search. */
const RESOLVER_FILE = "/etc/resolv.conf";
const HOSTS_FILE = "/etc/hosts";

export interface SystemDns {
  readonly resolver: Resolver;
  /** Domains that the system appends to names that DNS does not know; in Kubernetes those of the cluster. */
  readonly searchDomains: readonly string[];
}

/**
 * Makes what tells whom to ask. A `Resolver` reads the system's servers when it is made and never again, so it is made anew once
 * they have changed: a laptop joins another network, a name server moves.
 */
export function followSystemDns(
  makeResolver: () => Resolver,
  file = RESOLVER_FILE,
): () => Promise<SystemDns> {
  let known: { readonly text: string | null; readonly dns: SystemDns } | null = null;
  return async () => {
    const text = await readFile(file, "utf8").catch(() => null);
    // One that cannot be read is just being replaced, or there never was one.
    if (known === null || (text !== null && text !== known.text))
      known = {
        text,
        dns: { resolver: makeResolver(), searchDomains: readSearchDomains(text ?? "") },
      };
    return known.dns;
  };
}

/** Returns the addresses that the hosts file has for a name. */
export async function inHostsFile(host: string): Promise<readonly string[]> {
  const text = await readFile(HOSTS_FILE, "utf8").catch(() => "");
  return text
    .split("\n")
    .map((line) => line.split("#", 1)[0]!.trim().toLowerCase().split(/\s+/))
    .filter(([, ...names]) => names.includes(host.toLowerCase()))
    .map(([address]) => address!);
}

/** The last line that names some counts (resolv.conf(5)); `.` stands for none. */
function readSearchDomains(text: string): readonly string[] {
  const lines = text.split("\n").map((line) => line.trim().split(/\s+/));
  const [, ...domains] =
    lines.findLast(([keyword]) => keyword === "search" || keyword === "domain") ?? [];
  return domains.map((domain) => domain.replace(/\.$/, "")).filter((domain) => domain !== "");
}
