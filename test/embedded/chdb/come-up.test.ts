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

test.each([
  [
    "ends",
    (child: EventEmitter) => child.emit("exit", null, "SIGKILL"),
    "it ended (SIGKILL) while it opened /store",
  ],
  [
    "fails",
    (child: EventEmitter) => child.emit("message", { kind: "failed", message: "no" }),
    "no",
  ],
  ["says nothing", () => vi.advanceTimersByTime(60_000), "it has not come up within 60 s"],
])("a child that %s while it starts is told at once with the reason", async (_, act, reason) => {
  vi.useFakeTimers();
  try {
    const child = Object.assign(new EventEmitter(), { send: () => true });
    let told = "";
    comeUp(child as never, { storeDir: "/store" } as never).catch(
      (error: Error) => (told = error.message),
    );
    act(child);
    await vi.advanceTimersByTimeAsync(0);
    expect(told).toBe(`the embedded ClickHouse does not start: ${reason}`);
  } finally {
    vi.useRealTimers();
  }
});
