import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { StoredAttempt } from "../../../src/domain/event-store.ts";
import { numberAttempts } from "../../../src/pipeline/query/number-attempts.ts";
import { attemptsArbitrary, makeAttempt, makeEvent } from "../../support/clickhouse-events.ts";
import { EventModel } from "../../support/clickhouse-model.ts";
import { countTurns } from "../../support/count-turns.ts";

const event = makeEvent(1);

/** Makes a row at `at` ms; that of a deferral or a failure says when the next try is due, at `nextAt` ms. */
function row(
  run: string,
  status: StoredAttempt["status"],
  at: number,
  over: { nextAt?: number; tryNumber?: number; deferral?: number; destinationId?: string } = {},
): StoredAttempt {
  const { nextAt, ...rest } = over;
  return makeAttempt(event, {
    ...rest,
    run,
    status,
    attemptedAtMs: event.receivedAtMs + at,
    nextRetryAtMs: nextAt === undefined ? null : event.receivedAtMs + nextAt,
  });
}

const numbersOf = async (rows: readonly StoredAttempt[]): Promise<number[]> =>
  (await numberAttempts(rows)).map(({ attemptNumber }) => attemptNumber);

describe("the number of an attempt", () => {
  it("counts the tries of each destination in order of time, through replays too", async () => {
    expect(
      await numbersOf([
        row("event", "failed", 0, { nextAt: 10 }),
        row("event", "delivered", 1, { destinationId: "dst_2" }),
        row("event", "delivered", 10, { tryNumber: 2 }),
        row("A", "dead", 20),
        row("A", "delivered", 21, { destinationId: "dst_2" }),
      ]),
    ).toEqual([1, 1, 2, 3, 2]);
  });

  it("of a deferral is that of its own run's try, not of the next one at the destination", async () => {
    expect(
      await numbersOf([
        row("event", "delivered", 0),
        row("A", "delivered", 10),
        row("B", "rate_limited", 20, { nextAt: 40 }),
        row("C", "rate_limited", 21, { nextAt: 30 }),
        row("C", "delivered", 30, { deferral: 1 }),
        row("B", "delivered", 40, { deferral: 1 }),
      ]),
    ).toEqual([1, 2, 4, 3, 3, 4]);
  });

  it("of a deferral is right when a replay runs while the event's own retries do", async () => {
    expect(
      await numbersOf([
        row("event", "failed", 0, { nextAt: 30 }),
        row("A", "rate_limited", 10, { nextAt: 20 }),
        row("A", "rate_limited", 20, { nextAt: 40, deferral: 1 }),
        row("event", "rate_limited", 30, { nextAt: 35, tryNumber: 2 }),
        row("event", "delivered", 35, { tryNumber: 2, deferral: 1 }),
        row("A", "delivered", 40, { deferral: 2 }),
      ]),
    ).toEqual([1, 3, 3, 2, 2, 3]);
  });

  it("of a deferral is that of the try that came of it, when a crash let the try be made twice", async () => {
    expect(
      await numbersOf([
        row("event", "rate_limited", 0, { nextAt: 10 }),
        row("event", "failed", 10, { nextAt: 50, deferral: 1 }),
        row("event", "rate_limited", 20, { nextAt: 30, deferral: 2 }),
        row("event", "failed", 30, { nextAt: 60, deferral: 3 }),
        row("event", "rate_limited", 40, { nextAt: 45, deferral: 4 }),
      ]),
    ).toEqual([1, 1, 2, 2, 2]);
  });

  it("of tries that still wait goes on in the order in which they are due; deferrals of one try share it", async () => {
    expect(
      await numbersOf([
        row("event", "delivered", 0),
        row("A", "rate_limited", 10, { nextAt: 20 }),
        row("B", "rate_limited", 11, { nextAt: 30 }),
        row("C", "rate_limited", 12, { nextAt: 5, destinationId: "dst_2" }),
        row("A", "rate_limited", 20, { nextAt: 40, deferral: 1 }),
      ]),
    ).toEqual([1, 3, 2, 1, 3]);
  });

  it("of a deferral leaves room for a retry that comes before it", async () => {
    expect(
      await numbersOf([
        row("event", "failed", 0, { nextAt: 30 }),
        row("A", "rate_limited", 10, { nextAt: 40 }),
        row("B", "rate_limited", 11, { nextAt: 20 }),
      ]),
    ).toEqual([1, 4, 2]);
  });

  it("is what a plain model says, whatever was tried and put off", async () => {
    await fc.assert(
      fc.asyncProperty(attemptsArbitrary(event), async (attempts) => {
        const model = new EventModel([event], attempts, []);
        const numbered = await numberAttempts(model.attemptsOf(event.id));
        expect(numbered.map(({ id, attemptNumber }) => ({ id, attemptNumber }))).toEqual(
          model.numbered(event.id),
        );
      }),
      { numRuns: 1_000 },
    );
  });

  it("regression: of thousands is found in turns of the event loop: everything else waited for all of them", async () => {
    const rows = Array.from({ length: 5_000 }, (_, at) => row(`R${at}`, "delivered", at));
    using turns = countTurns();
    const numbers = await numbersOf(rows);
    expect(turns.count).toBeGreaterThanOrEqual(18);
    expect(numbers).toEqual(rows.map((_, index) => index + 1));
  });
});
