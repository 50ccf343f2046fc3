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

it("stays open twice as long after each probe that failed, up to a bound", () => {
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
