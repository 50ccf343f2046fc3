import { TIMERS } from "../domain/clock.ts";
import type { Clock } from "../domain/clock.ts";
import { tooMany } from "./api-failure.ts";

/** An event of 10 MB takes 50 to 100 MB of V8's heap until its answer is written; in a container of 1.5 GiB the whole heap has 0.8 GB. */
const MAX_AT_ONCE = 4;
const MAX_WAITING = 200;
const MAX_WAIT_MS = 10_000;
const TOO_MANY = "Too many large events are being read: ask for a few at a time.";

/** The place of one request; disposing it passes the place on. */
interface LargeAnswer extends Disposable {
  /** Resolves when a large answer may be made. @throws {ApiFailure} `rate_limited` when too many wait, or this one has waited for too long */
  take(): Promise<void>;
}

/** Begins a request of this organization, which has no place yet. */
export type LargeAnswers = (orgId: string) => LargeAnswer;

interface Waiting {
  readonly orgId: string;
  readonly begin: () => void;
}

/**
 * Bounds how many large answers are read and written at once: fifty clients that ask for large events would otherwise fill V8's heap,
 * which ends the process. The next place goes to the organization that has the fewest.
 */
export function makeLargeAnswers(clock: Pick<Clock, "schedule"> = TIMERS): LargeAnswers {
  const underwayOf = new Map<string, number>();
  const waiting = new Set<Waiting>();
  let underway = 0;

  function change(orgId: string, by: 1 | -1): void {
    const count = (underwayOf.get(orgId) ?? 0) + by;
    underway += by;
    if (count === 0) underwayOf.delete(orgId);
    else underwayOf.set(orgId, count);
  }

  function wait(orgId: string): Promise<void> {
    if (waiting.size >= MAX_WAITING) throw tooMany(TOO_MANY);
    return new Promise((resolve, reject) => {
      const cancel = clock.schedule(MAX_WAIT_MS, () => {
        waiting.delete(one);
        reject(tooMany(TOO_MANY));
      });
      const one = {
        orgId,
        begin: () => {
          cancel();
          resolve();
        },
      };
      waiting.add(one);
    });
  }

  function giveBack(orgId: string): void {
    change(orgId, -1);
    let next: Waiting | null = null;
    for (const one of waiting)
      if (next === null || (underwayOf.get(one.orgId) ?? 0) < (underwayOf.get(next.orgId) ?? 0))
        next = one;
    if (next === null) return;
    waiting.delete(next);
    change(next.orgId, 1);
    next.begin();
  }

  return (orgId) => {
    let hasPlace = false;
    return {
      async take() {
        if (hasPlace) return;
        if (underway < MAX_AT_ONCE) change(orgId, 1);
        else await wait(orgId);
        hasPlace = true;
      },
      [Symbol.dispose]() {
        if (hasPlace) giveBack(orgId);
        hasPlace = false;
      },
    };
  };
}
