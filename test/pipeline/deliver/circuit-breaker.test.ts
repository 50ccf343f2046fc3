import { expect, it } from "vitest";
import { CircuitBreaker } from "../../../src/pipeline/deliver/lane/circuit-breaker.ts";

const OPEN_MS = 10_000;
const options = {
  failures: 4,
  minStreakMs: 1_000,
  minNewRunsMs: 1_000,
  openMs: OPEN_MS,
  maxOpenMs: 40_000,
};
const failure = { timedOut: false, newRunMs: null };

/** Makes a circuit that opened at 1,000 ms. */
function opened(): CircuitBreaker {
  const breaker = new CircuitBreaker(options);
  for (const atMs of [0, 300, 600, 1_000]) breaker.onFailure(atMs, failure);
  return breaker;
}

it("is not kept open by tries that began before it opened, however many of them fail", () => {
  const breaker = opened();
  for (let late = 0; late < 60; late += 1) breaker.onFailure(1_500, failure);
  expect(breaker.state(2_000)).toEqual({ kind: "open", sinceMs: 1_000, untilMs: 11_000 });
  expect(breaker.state(11_000)).toEqual({ kind: "half_open", probing: false });
});

it("stays open twice as long after each probe that failed, up to a bound, and only as long as at first after a success", () => {
  const breaker = opened();
  let nowMs = 11_000;
  for (const pauseMs of [20_000, 40_000, 40_000]) {
    expect(breaker.state(nowMs)).toEqual({ kind: "half_open", probing: false });
    breaker.onStart();
    expect(breaker.state(nowMs)).toEqual({ kind: "half_open", probing: true });
    breaker.onFailure(nowMs, failure);
    expect(breaker.state(nowMs)).toEqual({
      kind: "open",
      sinceMs: nowMs,
      untilMs: nowMs + pauseMs,
    });
    nowMs += pauseMs;
  }
  breaker.onStart();
  breaker.onSuccess();
  expect(breaker.state(nowMs)).toEqual({ kind: "closed" });
  breaker.onStart();
  for (const laterMs of [0, 300, 600, 1_000]) breaker.onFailure(nowMs + laterMs, failure);
  const untilMs = nowMs + 1_000 + OPEN_MS;
  expect(breaker.state(nowMs + 1_000)).toMatchObject({ untilMs });
  expect(breaker.state(untilMs)).toEqual({ kind: "half_open", probing: false });
});

it("lets another probe go when one was cut off by us", () => {
  const breaker = opened();
  breaker.onStart();
  breaker.onAbandoned();
  expect(breaker.state(11_000)).toEqual({ kind: "half_open", probing: false });
});

it("lets a probe go at once when the receiver was changed, and its pauses begin anew", () => {
  const breaker = opened();
  breaker.onStart();
  breaker.onFailure(11_000, failure);
  breaker.onReceiverChanged(12_000);
  expect(breaker.state(12_000)).toEqual({ kind: "half_open", probing: false });
  breaker.onStart();
  breaker.onReceiverChanged(12_400);
  expect(breaker.state(12_400)).toEqual({ kind: "half_open", probing: false });
  breaker.onStart();
  breaker.onFailure(12_500, failure);
  expect(breaker.state(12_500)).toMatchObject({ untilMs: 12_500 + 2 * OPEN_MS });
});

it("opens after as many failures in a row as were set, and after a quarter as many timeouts", () => {
  for (const [timedOut, most] of [
    [false, 20],
    [true, 5],
  ] as const) {
    const breaker = new CircuitBreaker({ ...options, failures: 20 });
    for (let count = 1; count <= most; count += 1) {
      expect(breaker.isOpen).toBe(false);
      breaker.onFailure(count * 1_000, { timedOut, newRunMs: null });
    }
    expect(breaker.isOpen).toBe(true);
  }
});

it("does not count the failures of another receiver", () => {
  const breaker = new CircuitBreaker(options);
  for (const atMs of [0, 600, 1_200]) breaker.onFailure(atMs, failure);
  breaker.onReceiverChanged(1_300);
  expect(breaker.failingForMs(1_300)).toBe(0);
  breaker.onFailure(1_400, failure);
  expect(breaker.isOpen).toBe(false);
});

it("opens sooner on new runs that keep failing, though not on those of a backlog or of one burst", () => {
  const slow = { ...options, minStreakMs: 60_000 };
  const isOpenAfter = (failed: readonly (readonly [atMs: number, newRunMs: number | null])[]) => {
    const breaker = new CircuitBreaker(slow);
    for (const [atMs, newRunMs] of failed) breaker.onFailure(atMs, { timedOut: false, newRunMs });
    return breaker.isOpen;
  };
  const apart = [0, 400, 700, 1_000];
  expect(isOpenAfter(apart.map((ms) => [ms + 5, ms]))).toBe(true);
  expect(isOpenAfter(apart.slice(1).map((ms) => [ms + 5, ms]))).toBe(false);
  // The runs that began last may fail first.
  expect(isOpenAfter(apart.map((ms) => [ms + 5_000, 1_000 - ms]))).toBe(true);
  // A backlog fails within milliseconds; a burst began within milliseconds; retries are no new runs.
  expect(isOpenAfter(apart.map((ms, index) => [90_000 + index, ms]))).toBe(false);
  expect(isOpenAfter(apart.map((ms, index) => [ms + 5, index]))).toBe(false);
  expect(isOpenAfter(apart.map((ms) => [ms + 5, null]))).toBe(false);
  expect(isOpenAfter(apart.map((ms, index) => [ms + 5, index === 0 ? 90_000 : null]))).toBe(false);
});

it.each([
  ["a success", (breaker: CircuitBreaker) => breaker.onSuccess()],
  ["a change of the receiver", (breaker: CircuitBreaker) => breaker.onReceiverChanged(800)],
])("new runs that failed before %s do not count", (_, change) => {
  for (const [failed, isOpen] of [
    [(index: number) => [1_000 + index * 400, 1_000 + index * 400], true],
    // A burst, and a backlog.
    [(index: number) => [1_000 + index * 400, 1_000], false],
    [(index: number) => [5_000, index * 400], false],
  ] as const) {
    const breaker = new CircuitBreaker({ ...options, minStreakMs: 60_000 });
    const fail = ([atMs, newRunMs]: readonly number[]) =>
      breaker.onFailure(atMs!, { timedOut: false, newRunMs: newRunMs! });
    for (const atMs of [0, 400, 700]) fail([atMs, atMs]);
    change(breaker);
    for (const index of [0, 1, 2]) fail(failed(index));
    expect(breaker.isOpen).toBe(false);
    fail(failed(3));
    expect(breaker.isOpen).toBe(isOpen);
  }
});
