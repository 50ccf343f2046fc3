import { expect, it } from "vitest";
import { pause } from "../../src/domain/clock.ts";
import { SimClock } from "../support/sim-clock.ts";

/** Makes a clock that counts its pending timers. */
function countingClock() {
  const clock = new SimClock();
  let pending = 0;
  const counting = {
    now: () => clock.now(),
    monotonic: () => clock.monotonic(),
    schedule(delayMs: number, callback: () => void) {
      pending += 1;
      let isOver = false;
      const end = (): void => {
        if (!isOver) pending -= 1;
        isOver = true;
      };
      const cancel = clock.schedule(delayMs, () => {
        end();
        callback();
      });
      return () => {
        cancel();
        end();
      };
    },
  };
  return { clock, counting, pending: () => pending };
}

it("a pause ends after its time, or as soon as its signal is aborted, and leaves no timer then: who had ended kept the process for up to ten minutes", async () => {
  const { clock, counting, pending } = countingClock();
  const stop = new AbortController();
  const ended: string[] = [];
  void pause(counting, 1_000, stop.signal).then(() => ended.push("short"));
  void pause(counting, 60_000, stop.signal).then(() => ended.push("long"));
  void pause(counting, 5_000).then(() => ended.push("without"));
  await clock.advance(1_000);
  expect(ended).toEqual(["short"]);
  stop.abort();
  await clock.advance(0);
  expect(ended).toEqual(["short", "long"]);
  expect(pending()).toBe(1);
  await pause(counting, 60_000, stop.signal);
  await clock.advance(4_000);
  expect(ended).toEqual(["short", "long", "without"]);
  expect(pending()).toBe(0);
});
