import type { Clock } from "../../domain/clock.ts";
import { within } from "../../domain/within.ts";
import { importJwks, type VerificationKey } from "../../signing/jwt-keys.ts";
import { JwksEntries, type JwksEntriesLimits, type JwksEntry } from "./jwks-entries.ts";

interface JwksLimits {
  readonly timeoutMs: number;
  readonly maxBytes: number;
}

/**
 * Fetches the text behind a `jwks_url`. Must go through the receiver guard (the URL is a customer's), follow no redirects and
 * keep within both limits; rejects with a message that may be shown to the endpoint's owner.
 */
export type FetchJwks = (url: string, limits: JwksLimits) => Promise<string>;

type JwksResult =
  | { readonly ok: true; readonly jwks: object }
  | { readonly ok: false; readonly message: string };

export interface JwksSource {
  /** Answers from the cache while that is fresh. Never rejects. */
  get(url: string): Promise<JwksResult>;
  /** Fetches again, unless that was done a moment ago or the cache already holds other keys than `seen`. */
  refresh(url: string, seen: object): Promise<JwksResult>;
}

export interface JwksCacheOptions {
  readonly fetchJwks: FetchJwks;
  readonly clock: Pick<Clock, "monotonic" | "schedule">;
  readonly limits?: JwksEntriesLimits;
}

const FRESH_MS = 5 * 60_000;
/** How long keys stay in use while their URL cannot be reached. */
const STALE_MS = 60 * 60_000;
/**
 * Within this time a URL is fetched at most once for want of fresh keys, and once because a token asks for it, however many are
 * forged.
 */
const COOLDOWN_MS = 10_000;
/** The keys of most URLs take 2 KB, those of a malicious one up to 140 KB. */
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
      // The time limit holds even when the fetcher ignores it.
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
      // An entry that was forgotten meanwhile is new and has no keys.
      if (entry.jwks !== null && entry.jwks !== seen) return Promise.resolve(answerOf(entry));
      const fetching = running.get(entry);
      if (fetching !== undefined) return fetching;
      // Counted from the last refresh, not the last fetch: keys rotated right after that fetch would stay unknown for the whole
      // cooldown.
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
 * Returns only the usable keys of a set: the rest is up to the sender, can take twenty times the memory of its text (as small
 * objects), and would travel to the pool with every batch.
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
