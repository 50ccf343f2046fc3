import { ApiFailure } from "./api-failure.ts";

/** Of the ten connections that a process has to PostgreSQL: those that wait for the same row keep theirs meanwhile. */
const MOST_AT_ONCE = 4;
const MOST_WAITING = 200;
const LONGEST_WAIT_MS = 5_000;

interface Turns {
  underway: number;
  readonly waiting: (() => void)[];
}

/** @throws {ApiFailure} `rate_limited` where too many wait, or it waited for too long */
export type WriteInTurn = <T>(orgId: string, work: () => Promise<T>) => Promise<T>;

/** A few writes of one organization at a time, in their order: a burst of one keeps no other waiting. */
export function makeWriteTurns(monotonicMs: () => number): WriteInTurn {
  const byOrg = new Map<string, Turns>();

  async function turnOf(turns: Turns): Promise<void> {
    if (turns.underway < MOST_AT_ONCE) {
      turns.underway += 1;
      return;
    }
    if (turns.waiting.length >= MOST_WAITING) throw tooMany();
    const untilMs = monotonicMs() + LONGEST_WAIT_MS;
    await new Promise<void>((resolve) => turns.waiting.push(resolve));
    if (monotonicMs() <= untilMs) return;
    end(turns);
    throw tooMany();
  }

  /** The next one takes its place. */
  function end(turns: Turns): void {
    const next = turns.waiting.shift();
    if (next === undefined) turns.underway -= 1;
    else next();
  }

  return async (orgId, work) => {
    const turns = byOrg.get(orgId) ?? { underway: 0, waiting: [] };
    byOrg.set(orgId, turns);
    await turnOf(turns);
    try {
      return await work();
    } finally {
      end(turns);
      if (turns.underway === 0) byOrg.delete(orgId);
    }
  };
}

function tooMany(): ApiFailure {
  return new ApiFailure(
    "rate_limited",
    "Too many writes of this organization are under way: send a few at a time.",
    { headers: { "retry-after": "1" } },
  );
}
