import { expect, it, vi } from "vitest";
import { unlessStopped } from "../../src/cli/unless-stopped.ts";

it("regression: work that a signal finds under way goes on to its end: a key was made, and the command failed and said to run it again", async () => {
  const stop = new AbortController();
  let end = (): void => {};
  const ended = unlessStopped(stop, new Promise<void>((resolve) => (end = resolve)));
  stop.abort();
  end();
  await ended;
  await unlessStopped(stop, Promise.resolve());
  const failed = unlessStopped(stop, Promise.reject(new Error("no such key")));
  await expect(failed).rejects.toThrow("no such key");
});

it("what hangs is left a few seconds after the signal, and may fail then unheard", async () => {
  const stop = new AbortController();
  let fail: (error: Error) => void = () => {};
  let error: unknown = null;
  void unlessStopped(stop, new Promise<void>((_, reject) => (fail = reject))).catch(
    (reason: unknown) => (error = reason),
  );
  await new Promise((resolve) => setImmediate(resolve));
  stop.abort();
  await new Promise((resolve) => setImmediate(resolve));
  expect(error).toBeNull();
  await vi.waitFor(() => expect(String(error)).toContain("stopped before it was done"), {
    timeout: 15_000,
    interval: 100,
  });
  fail(new Error("too late"));
}, 20_000);
