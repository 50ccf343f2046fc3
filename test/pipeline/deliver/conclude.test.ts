import { expect, it } from "vitest";
import {
  concludeDead,
  concludeRateLimited,
  concludeTry,
} from "../../../src/pipeline/deliver/try/conclude.ts";
import type { Reply } from "../../../src/domain/outbound-request.ts";
import { firstTry } from "../../../src/domain/delivery-task.ts";
import { answer, SimWorld } from "../../support/sim-world.ts";

const REFUSED: Reply = { kind: "error", reason: "refused", latencyMs: 0.4 };

function aTry(reply: (nowMs: number) => Reply = () => REFUSED) {
  const world = new SimWorld();
  world.configure("dst_1");
  const config = world.destinations.get("dst_1")!;
  const nowMs = world.clock.now();
  const task = firstTry(world.makeEvent(), "dst_1", nowMs);
  const tried = concludeTry({
    task,
    config,
    reply: reply(nowMs),
    startedAtMs: nowMs,
    nowMs,
    retryBaseMs: 1_000,
    random: () => 0.5,
  });
  return { task, tried, nowMs };
}

it("tells how long its request took, and null where none was made: ends without one stood among the answer times as 0 s", () => {
  const { task, tried, nowMs } = aTry();
  expect(tried.tookMs).toBe(0.4);
  expect(concludeDead(task, "", "the destination was deleted", nowMs).tookMs).toBeNull();
  expect(concludeRateLimited(task, "", nowMs + 1, nowMs).tookMs).toBeNull();
});

it("regression: the row of a put-off try is not that of the try: the last owner's, answered late, was lost behind the next one's", () => {
  const { task, tried, nowMs } = aTry();
  const putOff = () => concludeRateLimited(task, "", nowMs + 1, nowMs).attempt.id;
  expect(putOff()).toBe(putOff());
  expect(putOff()).not.toBe(tried.attempt.id);
});

it("regression: a receiver whose clock is behind gets the retry when it asked for it: its date had long passed here, and it was tried again at once", () => {
  const { tried, nowMs } = aTry((hereMs) => {
    const thereMs = hereMs - 3_600_000;
    const [date, retryAfter] = [thereMs, thereMs + 60_000].map((ms) => new Date(ms).toUTCString());
    return {
      kind: "response",
      status: 429,
      date: date!,
      retryAfter: retryAfter!,
      body: "",
      latencyMs: 1,
    };
  });
  expect(tried.followUp?.dueAtMs).toBe(nowMs + 60_000);
});

it.each(["error", "timeout"] as const)(
  "regression: a try that ends as %s, after the receiver has said when to come back, is retried then: it came too early",
  (kind) => {
    const asked = { retryAfter: "60", date: null };
    const { tried, nowMs } = aTry(() => ({ kind, reason: "cut", latencyMs: 1, ...asked }));
    expect(tried.followUp?.dueAtMs).toBe(nowMs + 60_000);
  },
);

it.each([
  [200, "delivered"],
  [204, "delivered"],
  [299, "delivered"],
  [199, "failed"],
  [300, "failed"],
  [302, "failed"],
  [304, "failed"],
  [410, "dead"],
] as const)("a try that is answered %i is %s", (status, end) => {
  const { tried } = aTry(() => answer(status));
  expect(tried.attempt).toMatchObject({ httpStatus: status, status: end });
});
