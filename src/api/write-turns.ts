import { TIMERS } from "../domain/clock.ts";
import type { Clock } from "../domain/clock.ts";
import { tooMany } from "./api-failure.ts";

/** Out of a process's ten connections to PostgreSQL: writes that wait for the same row keep theirs meanwhile. */
const MAX_AT_ONCE = 4;
const MAX_WAITING = 200;
const MAX_WAIT_MS = 5_000;
const TOO_MANY = "Too many writes of this organization are under way: send a few at a time.";

interface Turns {
  underway: number;
  /** In order of arrival. */
  readonly waiting: Set<() => void>;
}

/** @throws {ApiFailure} `rate_limited` when too many wait, or this one has waited for too long */
export type WriteInTurn = <T>(orgId: string, work: () => Promise<T>) => Promise<T>;

/** Runs a few writes of each organization at a time, in order, so that one organization's burst keeps no other waiting. */
export function makeWriteTurns(clock: Pick<Clock, "schedule"> = TIMERS): WriteInTurn {
  const byOrg = new Map<string, Turns>();

  async function turnOf(turns: Turns): Promise<void> {
    if (turns.underway < MAX_AT_ONCE) {
      turns.underway += 1;
      return;
    }
    if (turns.waiting.size >= MAX_WAITING) throw tooMany(TOO_MANY);
    const isTurn = await new Promise<boolean>((resolve) => {
      const cancel = clock.schedule(MAX_WAIT_MS, () => {
        turns.waiting.delete(begin);
        resolve(false);
      });
      const begin = (): void => {
        cancel();
        resolve(true);
      };
      turns.waiting.add(begin);
    });
    if (!isTurn) throw tooMany(TOO_MANY);
  }

  return async (orgId, work) => {
    const turns = byOrg.get(orgId) ?? { underway: 0, waiting: new Set() };
    byOrg.set(orgId, turns);
    await turnOf(turns);
    try {
      return await work();
    } finally {
      passOn(turns);
      if (turns.underway === 0) byOrg.delete(orgId);
    }
  };
}

/** Passes the place on to the next one waiting. */
function passOn(turns: Turns): void {
  const [next] = turns.waiting;
  if (next === undefined) turns.underway -= 1;
  else {
    turns.waiting.delete(next);
    next();
  }
}
