import { LRUCache } from "lru-cache";
import { looksLikeApiKey } from "../domain/api-key.ts";
import type { ApiKeyStore } from "../domain/config-store.ts";
import { RingQueue } from "../domain/ring-queue.ts";
import { hashApiKey } from "./api-keys.ts";
import type { Actor } from "./management.ts";

const MAX_CACHED_KEYS = 10_000;
/** Cached separately: somebody who makes up keys must not evict the known ones. */
const MAX_UNKNOWN_KEYS = 1_000;
/** Short enough for a revocation to take effect everywhere within 60 s. */
const CACHED_MS = 30_000;
/** Short, so that a key tried just before it was made is not refused for long. */
const UNKNOWN_CACHED_MS = 2_000;

/**
 * Most simultaneous queries about keys never seen before: somebody who makes up thousands must not tie up the store for all others.
 */
const MOST_STRANGERS_ASKED = 4;

interface Known {
  readonly actor: Actor | null;
  readonly untilMs: number;
}

interface Waiting {
  readonly begin: () => void;
  readonly fail: (error: unknown) => void;
}

/**
 * Makes the function that returns who a bearer key belongs to, or null for an unknown or revoked one. Simultaneous lookups of
 * a key share one query. Uses `monotonicMs`: a wall clock that is set back would keep a revoked key valid for as long.
 */
export function makeAuthenticate(
  keys: Pick<ApiKeyStore, "findKey">,
  monotonicMs: () => number,
): (bearerKey: string) => Promise<Actor | null> {
  const known = new LRUCache<string, Known>({ max: MAX_CACHED_KEYS });
  const unknown = new LRUCache<string, Known>({ max: MAX_UNKNOWN_KEYS });
  const asking = new Map<string, Promise<Actor | null>>();
  const strangers = new RingQueue<Waiting>();
  let strangersAsked = 0;

  async function askAboutStranger(hash: Uint8Array, name: string): Promise<Actor | null> {
    if (strangersAsked === MOST_STRANGERS_ASKED)
      await new Promise<void>((begin, fail) => strangers.push({ begin, fail }));
    else strangersAsked += 1;
    try {
      return await ask(hash, name);
    } catch (error) {
      // When the store is down, those waiting fail at once instead of one after the other.
      while (strangers.size > 0) strangers.shift()?.fail(error);
      throw error;
    } finally {
      // The next one waiting takes over the place.
      const next = strangers.shift();
      if (next === undefined) strangersAsked -= 1;
      else next.begin();
    }
  }

  async function ask(hash: Uint8Array, name: string): Promise<Actor | null> {
    const askedAtMs = monotonicMs();
    const row = await keys.findKey(hash);
    const actor: Actor | null =
      row === null || row.revokedAtMs !== null
        ? null
        : { orgId: row.orgId, keyId: row.id, scopes: row.scopes };
    if (actor !== null) {
      unknown.delete(name);
      known.set(name, { actor, untilMs: askedAtMs + CACHED_MS });
    } else {
      known.delete(name);
      unknown.set(name, { actor, untilMs: askedAtMs + UNKNOWN_CACHED_MS });
    }
    return actor;
  }

  return async (bearerKey) => {
    if (!looksLikeApiKey(bearerKey)) return null;
    const hash = hashApiKey(bearerKey);
    const name = Buffer.from(hash).toString("base64");
    const acquaintance = known.get(name);
    const cached = acquaintance ?? unknown.get(name);
    if (cached !== undefined && monotonicMs() < cached.untilMs) return cached.actor;
    const running = asking.get(name);
    if (running !== undefined) return running;
    const asked = acquaintance === undefined ? askAboutStranger(hash, name) : ask(hash, name);
    const answer = asked.finally(() => asking.delete(name));
    asking.set(name, answer);
    return answer;
  };
}
