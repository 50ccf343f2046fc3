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
  breaker.onSuccess();
  expect(breaker.state(nowMs)).toEqual({ kind: "closed" });
  for (const laterMs of [0, 300, 600, 1_000]) breaker.onFailure(nowMs + laterMs, failure);
  expect(breaker.state(nowMs + 1_000)).toMatchObject({ untilMs: nowMs + 1_000 + OPEN_MS });
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
