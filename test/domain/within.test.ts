import { expect, it, vi } from "vitest";
import { TIMERS } from "../../src/domain/clock.ts";
import { within } from "../../src/domain/within.ts";
import { SimClock } from "../support/sim-clock.ts";

const never = new Promise<never>(() => {});

it("gives what the work comes to, or its error, and asks nothing of those who would be late", async () => {
  const late = vi.fn();
  expect(await within(Promise.resolve(7), 1_000, late, TIMERS)).toBe(7);
  expect(await within(Promise.resolve(undefined), 1_000, late, TIMERS)).toBeUndefined();
  const failed = within(Promise.reject(new Error("the work failed")), 1_000, late, TIMERS);
  await expect(failed).rejects.toThrow("the work failed");
  expect(late).not.toHaveBeenCalled();
});

it("gives what comes of being late, or its error; a failure of the work after that is nobody's", async () => {
  expect(await within(never, 1, () => "late", TIMERS)).toBe("late");
  let fail: (error: Error) => void = () => {};
  const work = new Promise<never>((_, reject) => {
    fail = reject;
  });
  const refused = within(
    work,
    1,
    () => {
      throw new Error("too late");
    },
    TIMERS,
  );
  await expect(refused).rejects.toThrow("too late");
  fail(new Error("the work failed"));
  // An unhandled rejection would fail the run.
  await new Promise(setImmediate);
});

it("goes by the clock it is given, and leaves no timer of its own behind", async () => {
  const clock = new SimClock();
  const cancel = vi.fn();
  const schedule = vi.fn((...args: Parameters<SimClock["schedule"]>) => {
    clock.schedule(...args);
    return cancel;
  });
  const outcome = within(never, 60_000, () => "late", { schedule });
  await clock.advance(60_000);
  expect(await outcome).toBe("late");
  expect(await within(Promise.resolve("done"), 60_000, () => "late", { schedule })).toBe("done");
  expect(cancel).toHaveBeenCalledTimes(2);
});
