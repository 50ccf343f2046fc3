import { EventEmitter } from "node:events";
import { expect, test, vi } from "vitest";
import { comeUp } from "../../../src/embedded/chdb/come-up.ts";

test("regression: a child that cannot be spoken to is told in one line, and nothing waits for it any more: it was told by a stack, and its time limit went on", async () => {
  vi.useFakeTimers();
  try {
    const child = Object.assign(new EventEmitter(), { send: () => true });
    const ending = comeUp(child as never, {} as never).catch((error: unknown) => error);
    child.emit("error", new Error("EPIPE"));
    expect(await ending).toMatchObject({
      name: "UsageError",
      message: "the embedded ClickHouse does not start: its process cannot be spoken to (EPIPE)",
    });
    expect(vi.getTimerCount()).toBe(0);
    expect(child.eventNames()).toEqual([]);
  } finally {
    vi.useRealTimers();
  }
});
