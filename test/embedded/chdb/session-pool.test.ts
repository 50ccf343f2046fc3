import type { Session } from "chdb";
import { expect, test } from "vitest";
import { SessionPool } from "../../../src/embedded/chdb/session-pool.ts";
import { nextTurn } from "../../../src/domain/next-turn.ts";

test("a session has one statement at a time, also after one that failed, and those that wait come in their order", async () => {
  const sessions = ["one", "two"].map((name) => ({ name }) as unknown as Session);
  const pool = new SessionPool(sessions);
  const inUse = new Set<Session>();
  const begun: number[] = [];
  const use = (number: number): Promise<void> =>
    pool.use(async ({ session }) => {
      expect(inUse).not.toContain(session);
      inUse.add(session);
      begun.push(number);
      for (let turn = 0; turn <= number % 3; turn += 1) await nextTurn();
      inUse.delete(session);
      if (number % 4 === 0) throw new Error("refused");
    });
  const numbers = Array.from({ length: 20 }, (_, number) => number);
  const uses: Promise<void>[] = [];
  for (const number of numbers) {
    uses.push(use(number));
    uses.at(-1)!.catch(() => undefined);
    if (number % 2 === 0) await nextTurn();
  }
  const ends = await Promise.allSettled(uses);
  expect(ends.map(({ status }) => status)).toEqual(
    numbers.map((number) => (number % 4 === 0 ? "rejected" : "fulfilled")),
  );
  expect(begun).toEqual(numbers);
  expect(inUse.size).toBe(0);
});
