import { expect, it } from "vitest";
import { LaneHealth } from "../../../src/pipeline/deliver/lane/lane-health.ts";
import { DEFAULT_DELIVERY_OPTIONS } from "../../../src/pipeline/deliver/delivery-options.ts";

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
      { kind: "response", status: 503, retryAfter, body: "", latencyMs: 5 },
      null,
      { steadyMs: WALL_MS + steadyAheadMs, wallMs: WALL_MS },
    );
    expect(health.retryAfterMs).toBe(600_000);
  },
);
