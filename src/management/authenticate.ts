import { LRUCache } from "lru-cache";
import { looksLikeApiKey } from "../domain/api-key.ts";
import type { Clock } from "../domain/clock.ts";
import type { ApiKeyStore } from "../domain/config-store.ts";
import { RingQueue } from "../domain/ring-queue.ts";
import { within } from "../domain/within.ts";
import { hashApiKey } from "./api-keys.ts";
import type { Actor } from "./management.ts";

const MAX_CACHED_KEYS = 10_000;
/** Cached separately: somebody who makes up keys must not evict the known ones. */
const MAX_UNKNOWN_KEYS = 1_000;
/** Short: a revoked key is to be refused at once, and one tried just before it was made is not to be refused for long. */
const CACHED_MS = 2_000;
/** How long a key that was found in the store is good without another look, while the store is unreachable or does not answer. */
const GOOD_WITHOUT_STORE_MS = 30_000;
/** How long a request with such a key waits for the store: one that hangs gives up only after many seconds. */
const STORE_ANSWERS_WITHIN_MS = 1_000;

/**
 * Most simultaneous queries about keys never seen before: somebody who makes up thousands must not tie up the store for all others.
 */
const MAX_STRANGERS_ASKED = 4;

interface Known {
  readonly actor: Actor | null;
  readonly askedAtMs: number;
}

/** What the store is being asked about a key. */
interface Question {
  readonly answer: Promise<Actor | null>;
  /** One request has waited for it as long as any should. */
  isLate: boolean;
}

interface Waiting {
  readonly begin: () => void;
  readonly fail: (error: unknown) => void;
}

/**
 * Makes the function that returns who a bearer key belongs to, or null for an unknown or revoked one. Simultaneous lookups of
 * a key share one query. Goes by monotonic time: a wall clock that is set back would keep a revoked key valid for as long.
 */
export function makeAuthenticate(
  keys: Pick<ApiKeyStore, "findKey">,
  clock: Pick<Clock, "monotonic" | "schedule">,
): (bearerKey: string) => Promise<Actor | null> {
  const known = new LRUCache<string, Known>({ max: MAX_CACHED_KEYS });
  const unknown = new LRUCache<string, Known>({ max: MAX_UNKNOWN_KEYS });
  const asking = new Map<string, Question>();
  const strangers = new RingQueue<Waiting>();
  let strangersAsked = 0;

  async function askAboutStranger(hash: Uint8Array, name: string): Promise<Actor | null> {
    if (strangersAsked === MAX_STRANGERS_ASKED)
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
    const askedAtMs = clock.monotonic();
    const row = await keys.findKey(hash);
    const actor: Actor | null =
      row === null || row.revokedAtMs !== null
        ? null
        : { orgId: row.orgId, keyId: row.id, scopes: row.scopes };
    const [kept, other] = actor === null ? [unknown, known] : [known, unknown];
    other.delete(name);
    kept.set(name, { actor, askedAtMs });
    return actor;
  }

  /** Asks, unless it is being asked already. */
  function question(name: string, ask: () => Promise<Actor | null>): Question {
    const running = asking.get(name);
    if (running !== undefined) return running;
    const answer = ask().finally(() => asking.delete(name));
    const asked = { answer, isLate: false };
    asking.set(name, asked);
    return asked;
  }

  /** Waits for what the store says now of a key that it had, but no longer than such a key can do without. */
  async function answerOrLast(asked: Question, last: Known): Promise<Actor | null> {
    const isGood = (): boolean => isYounger(last, GOOD_WITHOUT_STORE_MS);
    if (!isGood()) return asked.answer;
    const giveUp = (): Actor | null => {
      asked.isLate = true;
      return last.actor;
    };
    try {
      return asked.isLate
        ? last.actor
        : await within(asked.answer, STORE_ANSWERS_WITHIN_MS, giveUp, clock);
    } catch (error) {
      if (isGood()) return last.actor;
      throw error;
    }
  }

  function isYounger({ askedAtMs }: Known, ageMs: number): boolean {
    return clock.monotonic() < askedAtMs + ageMs;
  }

  return async (bearerKey) => {
    if (!looksLikeApiKey(bearerKey)) return null;
    const hash = hashApiKey(bearerKey);
    const name = Buffer.from(hash).toString("base64");
    const acquaintance = known.get(name);
    const cached = acquaintance ?? unknown.get(name);
    if (cached !== undefined && isYounger(cached, CACHED_MS)) return cached.actor;
    return acquaintance === undefined
      ? question(name, () => askAboutStranger(hash, name)).answer
      : answerOrLast(
          question(name, () => ask(hash, name)),
          acquaintance,
        );
  };
}
