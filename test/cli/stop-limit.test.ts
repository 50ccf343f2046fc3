import { expect, it } from "vitest";
import { StopLimit } from "../../src/cli/stop-limit.ts";

const never = new Promise<never>(() => {});

it("counts from the signal on, also from one that came before", async () => {
  const stop = new AbortController();
  using limit = new StopLimit(stop.signal, 1);
  const isOver = await Promise.race([limit.race(never), pass(50)]);
  expect(isOver).toBe("waits");
  stop.abort();
  expect(await limit.race(never)).toBe("late");
  using behind = new StopLimit(AbortSignal.abort(), 1);
  expect(await behind.race(never)).toBe("late");
});

it("keeps nothing waiting once it is not needed any more: the process would end half a minute later", () => {
  const timers = (): number =>
    process.getActiveResourcesInfo().filter((name) => name === "Timeout").length;
  const before = timers();
  {
    using limit = new StopLimit(AbortSignal.abort(), 60_000);
    limit.begin();
    expect(timers()).toBe(before + 1);
  }
  expect(timers()).toBe(before);
});

function pass(ms: number): Promise<"waits"> {
  return new Promise((resolve) => setTimeout(() => resolve("waits"), ms));
}
