import { describe, expect, it } from "vitest";
import { LogError } from "../../src/domain/log.ts";
import { makeFailureWatch } from "../../src/domain/failure-watch.ts";

describe("failures of a consumer", () => {
  it("regression: the same one is told at once, then once a minute with how often it occurred: a missing topic filled the log with a line a second", () => {
    const { watch, lines, clock } = makeWatch();
    for (let second = 0; second < 150; second += 1) {
      clock.nowMs = second * 1_000;
      watch.onError(notJoined("This server does not host this topic-partition"));
    }
    expect(lines).toEqual([
      "failed at 0 times 1",
      "failed at 60000 times 60",
      "failed at 120000 times 60",
    ]);
    watch.onRestored(150_000);
    expect(lines.at(-1)).toBe("restored at 149000 after 150000 untold 29");
  });

  it("are told at once when they differ, if only in their cause, and again after a minute when they are back", () => {
    const { watch, lines, clock } = makeWatch();
    watch.onError(notJoined("one"));
    watch.onError(notJoined("other"));
    watch.onRestored(1_000);
    clock.nowMs = 60_000;
    watch.onError(notJoined("one"));
    expect(lines).toEqual([
      "failed at 0 times 1",
      "failed at 0 times 1",
      "restored at 0 after 1000 untold 0",
      "failed at 60000 times 1",
    ]);
  });

  it("do not fill the log when the consumer works for a moment between them", () => {
    const { watch, lines, clock } = makeWatch();
    for (let second = 0; second < 60; second += 1) {
      clock.nowMs = second * 1_000;
      watch.onError(new Error("closed"));
      watch.onRestored(500);
    }
    expect(lines).toEqual(["failed at 0 times 1", "restored at 0 after 500 untold 0"]);
    clock.nowMs = 60_000;
    watch.onError(new Error("closed"));
    expect(lines.at(-1)).toBe("failed at 60000 times 60");
  });

  it("are all told when each is another, and only the last twenty kept", () => {
    const { watch, lines } = makeWatch();
    for (let round = 0; round < 2; round += 1)
      for (let offset = 0; offset < 21; offset += 1) watch.onError(new Error(`lost at ${offset}`));
    expect(lines).toHaveLength(42);
    watch.onError(new Error("lost at 20"));
    expect(lines).toHaveLength(42);
  });
});

function notJoined(why: string): Error {
  return new LogError("log_unavailable", "the consumer group cannot be joined", {
    cause: new Error(why),
  });
}

function makeWatch() {
  const clock = { nowMs: 0, monotonic: () => clock.nowMs };
  const lines: string[] = [];
  const watch = makeFailureWatch({
    clock,
    failed: ({ times }) => lines.push(`failed at ${clock.nowMs} times ${times}`),
    restored: ({ afterMs, untold }) =>
      lines.push(`restored at ${clock.nowMs} after ${afterMs} untold ${untold}`),
  });
  return { watch, lines, clock };
}
