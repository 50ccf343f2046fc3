import { LRUCache } from "lru-cache";
import { looksLikeApiKey } from "../domain/api-key.ts";
import type { ApiKeyStore } from "../domain/config-store.ts";
import { hashApiKey } from "./api-keys.ts";
import type { Actor } from "./management.ts";

const MAX_CACHED_KEYS = 10_000;
/** Kept apart: whoever makes up keys must not push out those that are known. */
const MAX_UNKNOWN_KEYS = 1_000;
/** So that a revocation is effective everywhere within 60 s. */
const CACHED_MS = 30_000;
/** A key that was just made must not stay refused where it was tried too early. */
const UNKNOWN_CACHED_MS = 2_000;

interface Known {
  readonly actor: Actor | null;
  readonly untilMs: number;
}

/** Who a bearer key belongs to; null for an unknown or revoked one. Simultaneous questions about a key are asked once. */
export function makeAuthenticate(
  keys: Pick<ApiKeyStore, "findKey">,
  now: () => number,
): (bearerKey: string) => Promise<Actor | null> {
  const known = new LRUCache<string, Known>({ max: MAX_CACHED_KEYS });
  const unknown = new LRUCache<string, Known>({ max: MAX_UNKNOWN_KEYS });
  const asking = new Map<string, Promise<Actor | null>>();

  async function ask(hash: Uint8Array, name: string): Promise<Actor | null> {
    const askedAtMs = now();
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
    const cached = known.get(name) ?? unknown.get(name);
    if (cached !== undefined && now() < cached.untilMs) return cached.actor;
    const running = asking.get(name);
    if (running !== undefined) return running;
    const answer = ask(hash, name).finally(() => asking.delete(name));
    asking.set(name, answer);
    return answer;
  };
}
