import type { LookupFunction } from "node:net";
import { isIP } from "node:net";
import type { CidrList } from "../../domain/ip.ts";
import { matchesCidr } from "../../domain/ip.ts";
import {
  checkReceiverUrl,
  isAllowedAddress,
  isLocalhost,
  literalHost,
} from "../../domain/receiver-url.ts";
import { TIMERS } from "../../domain/clock.ts";
import { codeOf } from "../../domain/thrown.ts";
import { within } from "../../domain/within.ts";
import { isUnknownName, type ResolveHost } from "./resolve-host.ts";

/** The guard refused: nothing was dialled. `message` is what the customer reads. */
export class ReceiverRefusedError extends Error {
  readonly code = "receiver_refused";
  constructor(message: string) {
    super(message);
    this.name = "ReceiverRefusedError";
  }
}

export type ReceiverCheck = { readonly ok: true } | { readonly ok: false; readonly reason: string };

export interface ReceiverGuardOptions {
  readonly allowPrivate: CidrList;
  readonly resolve: ResolveHost;
  /** Longest wait for resolution at write time. */
  readonly resolveTimeoutMs: number;
}

/** A URL that may be tried; the addresses of its name are checked when it is dialled. */
export interface ParsedReceiver {
  readonly url: URL;
  readonly privateOnly: boolean;
}

/** Receivers whose URL need not be parsed for every try: the verdict on the text never changes. */
const MAX_PARSED = 20_000;
/**
 * Further addresses of one name are not looked at. An answer of DNS holds some thousands: to check them all holds up the process for a
 * tenth of a second at each connect, and each try would knock at all of them, whoever they belong to.
 */
const MAX_ADDRESSES = 64;

/**
 * Decides which addresses may be dialled. One refused address among several refuses the name as a whole:
 * a mixed answer is what rebinding looks like, and which address the socket would pick is a matter of luck.
 */
export class ReceiverGuard {
  readonly #options: ReceiverGuardOptions;
  readonly #parsed = new Map<string, ParsedReceiver>();

  constructor(options: ReceiverGuardOptions) {
    this.#options = options;
  }

  /** Checks text and policy; literal addresses too, since sockets skip `lookup` for them. @throws {ReceiverRefusedError} */
  parse(text: string): ParsedReceiver {
    const known = this.#parsed.get(text);
    if (known !== undefined) return known;
    const verdict = checkReceiverUrl(text, this.#options.allowPrivate);
    if (!verdict.ok) throw new ReceiverRefusedError(`receiver URL refused: ${verdict.reason}`);
    if (this.#parsed.size >= MAX_PARSED) this.#parsed.clear();
    this.#parsed.set(text, verdict);
    return verdict;
  }

  /**
   * Checks a receiver URL when it is written. A public name that does not resolve (yet) is accepted: its DNS may follow
   * later, and every connect is guarded again. A name that is right only inside the allowed ranges must resolve there now.
   */
  async check(text: string): Promise<ReceiverCheck> {
    const verdict = checkReceiverUrl(text, this.#options.allowPrivate);
    if (!verdict.ok) return verdict;
    const { url, privateOnly } = verdict;
    if (literalHost(url) !== null) return { ok: true };
    try {
      const resolving = this.addresses(url.hostname, privateOnly);
      await within(resolving, this.#options.resolveTimeoutMs, refuseLate, TIMERS);
      return { ok: true };
    } catch (error) {
      if (error instanceof ReceiverRefusedError) return { ok: false, reason: error.message };
      if (!privateOnly) return { ok: true };
      const name =
        url.protocol === "https:" ? `host ${url.hostname} is not a public name` : "must be https";
      const unresolved = isUnknownName(error)
        ? "does not resolve into the allowed private ranges"
        : `whether it resolves into the allowed private ranges DNS did not say (${codeOf(error) ?? "no answer in time"})`;
      return { ok: false, reason: `${name}, and ${unresolved}` };
    }
  }

  /** Returns the addresses of a name, or the first of very many, all of them allowed. @throws {ReceiverRefusedError} or what the resolver rejects with */
  async addresses(host: string, privateOnly: boolean): Promise<readonly string[]> {
    const { allowPrivate, resolve } = this.#options;
    if (isLocalhost(host)) {
      const allowed = ["127.0.0.1", "::1"].filter((address) => matchesCidr(address, allowPrivate));
      if (allowed.length === 0) throw new ReceiverRefusedError(`host ${host} is not public`);
      return allowed;
    }
    const addresses = (await resolve(host)).slice(0, MAX_ADDRESSES);
    if (addresses.length === 0) throw new ReceiverRefusedError(`host ${host} has no address`);
    for (const address of addresses) {
      if (!isAllowedAddress(address, privateOnly, allowPrivate))
        // Does not say which one: whoever may write a receiver URL could look up the names of this network.
        throw new ReceiverRefusedError(
          `receiver host ${host} resolves to an address ${privateOnly ? "where plain http and private names are not allowed" : "that is not public"}`,
        );
    }
    return addresses;
  }

  /** Makes a `connect.lookup` that gives the socket exactly the addresses that were checked, to be dialled in the given order. */
  lookup(
    privateOnly: boolean,
    order: (addresses: readonly string[]) => readonly string[],
  ): LookupFunction {
    /* oxlint-disable promise/no-callback-in-promise -- net's lookup is a callback interface */
    return (host, options, callback) => {
      this.addresses(host, privateOnly).then(
        (addresses) => {
          const entries = order(addresses).map((address) => ({ address, family: isIP(address) }));
          const first = entries[0];
          if (options.all === true || first === undefined) callback(null, entries);
          else callback(null, first.address, first.family);
        },
        (error: unknown) => callback(asLookupError(error, host), []),
      );
    };
  }
}

function refuseLate(): never {
  throw new Error("resolution took too long");
}

function asLookupError(error: unknown, host: string): NodeJS.ErrnoException {
  if (error instanceof ReceiverRefusedError) return error;
  return Object.assign(new Error(`host ${host} could not be resolved`, { cause: error }), {
    code: codeOf(error) ?? "ENOTFOUND",
    syscall: "getaddrinfo",
  });
}
