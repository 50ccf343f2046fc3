import { expect, test, vi } from "vitest";
import { withReadDeadline } from "../../../src/adapters/clickhouse/read-deadline.ts";
import { collectGarbage } from "../../support/collect-garbage.ts";

const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

test("what listened for the end of a read goes with the read: each answer that was read stayed in memory", async () => {
  const request = new AbortController();
  const answers: WeakRef<object>[] = [];
  const read = async (signal: AbortSignal): Promise<void> => {
    const answer = { rows: Array.from({ length: 100 }) };
    signal.addEventListener("abort", () => answer.rows.pop());
    answers.push(new WeakRef(answer));
  };
  for (let count = 0; count < 100; count += 1) await withReadDeadline(10, request.signal, read);
  await turn();
  collectGarbage();
  const kept = answers.filter((answer) => answer.deref() !== undefined);
  expect(kept.length).toBeLessThan(10);
});

test("a read is ended by its request's signal with its reason, also one that was over before", async () => {
  const request = new AbortController();
  const untilEnded = (signal: AbortSignal): Promise<never> =>
    new Promise((_resolve, reject) => {
      if (signal.aborted) reject(signal.reason as Error);
      signal.addEventListener("abort", () => reject(signal.reason as Error));
    });
  const read = withReadDeadline(10, request.signal, untilEnded);
  request.abort(new Error("nobody waits"));
  await expect(read).rejects.toThrow("nobody waits");
  await expect(withReadDeadline(10, request.signal, untilEnded)).rejects.toThrow("nobody waits");
});

test("regression: a read whose turn comes with little time left is refused: it was begun and cut, and slowed those that could have ended", async () => {
  vi.useFakeTimers();
  try {
    const asked: string[] = [];
    const readAfter = (waitMs: number): Promise<void> =>
      withReadDeadline(8, undefined, async (_signal, began) => {
        await new Promise((resolve) => setTimeout(resolve, waitMs));
        began();
        asked.push(`after ${waitMs} ms`);
      });
    const reads = Promise.allSettled([readAfter(7_900), readAfter(8_100)]);
    await vi.advanceTimersByTimeAsync(8_100);
    expect(await reads).toMatchObject([
      { status: "fulfilled" },
      { status: "rejected", reason: { code: "store_busy" } },
    ]);
    expect(asked).toEqual(["after 7900 ms"]);
  } finally {
    vi.useRealTimers();
  }
});
