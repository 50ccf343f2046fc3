import type { Clock } from "../../domain/clock.ts";
import { within } from "../../domain/within.ts";
import { importJwks, type VerificationKey } from "../../signing/jwt-keys.ts";
import { JwksEntries, type JwksEntriesLimits, type JwksEntry } from "./jwks-entries.ts";

interface JwksLimits {
  readonly timeoutMs: number;
  readonly maxBytes: number;
}

/**
 * Fetches the text behind a `jwks_url`. Must go through the receiver guard (the URL is a customer's), follow
 * no redirects and hold both limits; rejects with a message that may be shown to the endpoint's owner.
 */
export type FetchJwks = (url: string, limits: JwksLimits) => Promise<string>;

type JwksResult =
  | { readonly ok: true; readonly jwks: object }
  | { readonly ok: false; readonly message: string };

export interface JwksSource {
  /** From the cache where it is fresh. Never rejects. */
  get(url: string): Promise<JwksResult>;
  /** Fetches again unless that was done a moment ago, or `seen` is no longer what is cached. */
  refresh(url: string, seen: object): Promise<JwksResult>;
}

export interface JwksCacheOptions {
  readonly fetchJwks: FetchJwks;
  readonly clock: Pick<Clock, "monotonic" | "schedule">;
  readonly limits?: JwksEntriesLimits;
}

const FRESH_MS = 5 * 60_000;
/** Keys go on to serve this long while their URL cannot be reached. */
const STALE_MS = 60 * 60_000;
/** At most one fetch per URL in this time since there are no fresh keys, and one since a token asks, whatever is forged. */
const COOLDOWN_MS = 10_000;
/** The keys of most URLs take 2 KB; of one that is set on it, 140. */
const ENTRIES_LIMITS: JwksEntriesLimits = { maxUrls: 10_000, maxBytes: 64 * 1024 * 1024 };
const LIMITS: JwksLimits = { timeoutMs: 1200, maxBytes: 256 * 1024 };

/** Caches key sets by URL, one fetch at a time for each. */
export function makeJwksCache({
  fetchJwks,
  clock,
  limits = ENTRIES_LIMITS,
}: JwksCacheOptions): JwksSource {
  const entries = new JwksEntries(limits);
  const running = new Map<JwksEntry, Promise<JwksResult>>();

  const answerOf = (entry: JwksEntry): JwksResult => {
    const isUsable = clock.monotonic() - entry.fetchedAtMs <= STALE_MS;
    return entry.jwks !== null && isUsable
      ? { ok: true, jwks: entry.jwks }
      : { ok: false, message: entry.failure };
  };

  const fetchInto = async (url: string, entry: JwksEntry): Promise<JwksResult> => {
    entry.triedAtMs = clock.monotonic();
    try {
      // Also where the fetcher does not hold its limits.
      const fetching = fetchJwks(url, LIMITS);
      const jwks = parseJwks(await within(fetching, LIMITS.timeoutMs, giveUp, clock));
      entries.setKeys(url, entry, jwks);
      entry.fetchedAtMs = clock.monotonic();
    } catch (error) {
      entry.failure = error instanceof Error ? error.message : "the request failed";
    }
    return answerOf(entry);
  };

  const hasCooledDown = (sinceMs: number): boolean => clock.monotonic() - sinceMs >= COOLDOWN_MS;

  const fetchOnce = (url: string, entry: JwksEntry): Promise<JwksResult> => {
    const known = running.get(entry);
    if (known !== undefined) return known;
    const fetching = fetchInto(url, entry).finally(() => running.delete(entry));
    running.set(entry, fetching);
    return fetching;
  };

  return {
    get(url) {
      const entry = entries.use(url);
      const isFresh = clock.monotonic() - entry.fetchedAtMs <= FRESH_MS;
      return !isFresh && (running.has(entry) || hasCooledDown(entry.triedAtMs))
        ? fetchOnce(url, entry)
        : Promise.resolve(answerOf(entry));
    },
    refresh(url, seen) {
      const entry = entries.use(url);
      // Forgotten since, it has none.
      if (entry.jwks !== null && entry.jwks !== seen) return Promise.resolve(answerOf(entry));
      const fetching = running.get(entry);
      if (fetching !== undefined) return fetching;
      // Not since the last fetch of all: keys that were rotated right behind it would be unknown for as long.
      if (!hasCooledDown(entry.refreshedAtMs)) return Promise.resolve(answerOf(entry));
      entry.refreshedAtMs = clock.monotonic();
      return fetchOnce(url, entry);
    },
  };
}

function giveUp(): never {
  throw new Error(`no answer within ${LIMITS.timeoutMs} ms`);
}

/**
 * The usable keys of a set and nothing else of it: the rest is the sender's, takes twenty times the memory of its text where it is
 * small objects, and would travel to the pool with every batch.
 * @throws {Error} with a message for the endpoint's owner
 */
function parseJwks(text: string): object {
  if (text.length > LIMITS.maxBytes) throw new Error("the answer is too large");
  let jwks: unknown;
  try {
    jwks = JSON.parse(text);
  } catch {
    throw new Error("the answer is not JSON");
  }
  const imported = importJwks(jwks);
  if (!imported.ok) throw new Error(`the answer ${imported.message}`);
  return { keys: imported.keys.map(toJwk) };
}

function toJwk({ key, keyId, algorithm }: VerificationKey): object {
  const jwk = key.export({ format: "jwk" });
  if (keyId !== null) jwk["kid"] = keyId;
  if (algorithm !== null) jwk["alg"] = algorithm;
  return jwk;
}
