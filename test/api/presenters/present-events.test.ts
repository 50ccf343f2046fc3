import { expect, test } from "vitest";
import { presentEventDetail } from "../../../src/api/presenters/present-events.ts";
import { makeAttempt, makeEvent } from "../../support/clickhouse-events.ts";
import { countTurns } from "../../support/count-turns.ts";

test("thousands of attempts are presented in order, with turns of the event loop in between", async () => {
  const event = makeEvent(1);
  const attempts = Array.from({ length: 5_000 }, (_, index) => ({
    ...makeAttempt(event, { tryNumber: index + 1 }),
    attemptNumber: index + 1,
  }));
  using turns = countTurns();
  const shown = await presentEventDetail({ event, attempts, deliverySummary: null });
  expect(turns.count).toBeGreaterThanOrEqual(9);
  expect(shown.attempts.map((attempt) => attempt.attempt_number)).toEqual(
    attempts.map(({ attemptNumber }) => attemptNumber),
  );
});
