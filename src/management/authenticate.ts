import { LRUCache } from "lru-cache";
import { looksLikeApiKey } from "../domain/api-key.ts";
import type { ApiKeyStore } from "../domain/config-store.ts";
import { RingQueue } from "../domain/ring-queue.ts";
import { hashApiKey } from "./api-keys.ts";
import type { Actor } from "./management.ts";

const MAX_CACHED_KEYS = 10_000;
/** Kept apart: whoever makes up keys must not push out those that are known. */
const MAX_UNKNOWN_KEYS = 1_000;
/** So that a revocation is effective everywhere within 60 s. */
const CACHED_MS = 30_000;
/** A key that was just made must not stay refused where it was tried too early. */
const UNKNOWN_CACHED_MS = 2_000;

/** Questions about keys never seen, at once: whoever makes up thousands must not keep the store from everybody else. */
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
 * Who a bearer key belongs to; null for an unknown or revoked one. Simultaneous questions about a key are asked once.
 * `monotonicMs`, and not the wall clock: set back, that would keep a revoked key good for as long.
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
      // A store that is down is not waited for by one after the other.
      while (strangers.size > 0) strangers.shift()?.fail(error);
      throw error;
    } finally {
      // Who waits takes the place over.
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
