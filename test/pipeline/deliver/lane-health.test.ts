import { expect, it } from "vitest";
import { LaneHealth } from "../../../src/pipeline/deliver/lane/lane-health.ts";
import { DEFAULT_DELIVERY_OPTIONS } from "../../../src/pipeline/deliver/delivery-options.ts";
import type { Reply } from "../../../src/domain/outbound-request.ts";

const HOUR_MS = 3_600_000;
const WALL_MS = Date.UTC(2026, 10, 23, 9);

it.each([
  ["set back", HOUR_MS],
  ["set on", -HOUR_MS],
])(
  "a date that a receiver asks to be left alone until is read by the wall clock after that was %s: runs behind its open circuit ended too early, or too late",
  (_, steadyAheadMs) => {
    const health = new LaneHealth({ ...DEFAULT_DELIVERY_OPTIONS, ownerId: "one", version: "0" });
    const retryAfter = new Date(WALL_MS + 600_000).toUTCString();
    health.onReply(
      health.onStart(WALL_MS + steadyAheadMs, 1),
      { kind: "response", status: 503, retryAfter, date: null, body: "", latencyMs: 5 },
      null,
      { steadyMs: WALL_MS + steadyAheadMs, wallMs: WALL_MS },
    );
    expect(health.retryAfterMs).toBe(600_000);
  },
);

const NOW = { steadyMs: WALL_MS, wallMs: WALL_MS };
const WELL: Reply = {
  kind: "response",
  status: 200,
  retryAfter: null,
  date: null,
  body: "",
  latencyMs: 5,
};

function askedToWait(seconds: number): Reply {
  return {
    kind: "response",
    status: 503,
    retryAfter: `${seconds}`,
    date: null,
    body: "",
    latencyMs: 5,
  };
}

it("remembers the longest wait that a receiver has asked for, until it succeeds or is another one", () => {
  const health = new LaneHealth({ ...DEFAULT_DELIVERY_OPTIONS, ownerId: "one", version: "0" });
  const answers = (reply: Reply) => health.onReply(health.onStart(WALL_MS, 1), reply, null, NOW);
  answers(askedToWait(600));
  answers(askedToWait(60));
  expect(health.retryAfterMs).toBe(600_000);
  answers(WELL);
  expect(health.retryAfterMs).toBe(0);
  answers(askedToWait(600));
  health.onReceiverChanged(WALL_MS);
  expect(health.retryAfterMs).toBe(0);
});

it("learns nothing about another receiver from tries that began before it was changed", () => {
  const health = new LaneHealth({ ...DEFAULT_DELIVERY_OPTIONS, ownerId: "one", version: "0" });
  const before = health.onStart(WALL_MS, 1);
  const alsoBefore = health.onStart(WALL_MS, 2);
  health.onReceiverChanged(WALL_MS);
  health.onReply(before, askedToWait(600), null, NOW);
  expect(health.retryAfterMs).toBe(0);
  health.onReply(alsoBefore, WELL, null, NOW);
  expect(health.proven).toBe(false);
});
