import { expect, it } from "vitest";
import { ConcurrencyLimit } from "../../../src/pipeline/deliver/lane/concurrency-limit.ts";

const HALF_LIFE_MS = 60_000;

function repeat(times: number, action: () => void): void {
  for (let count = 0; count < times; count += 1) action();
}

it("a new receiver gets four tries at a time, and one more for each that succeeds, up to the maximum", () => {
  const limit = new ConcurrencyLimit(6);
  expect(limit.value).toBe(4);
  const values = [1, 2, 3, 4].map(() => {
    limit.onSuccess(limit.value, 0);
    return limit.value;
  });
  expect(values).toEqual([5, 6, 6, 6]);
  expect(new ConcurrencyLimit(2).value).toBe(2);
});

it("a receiver that fails gets half as many, one that times out a single one, and each at least that", () => {
  const limit = new ConcurrencyLimit(64);
  repeat(7, () => limit.onSuccess(limit.value, 0));
  const values = [1, 2, 3, 4].map(() => {
    limit.onFailure(limit.value, 0);
    return limit.value;
  });
  expect(values).toEqual([5, 2, 1, 1]);
  repeat(9, () => limit.onSuccess(limit.value, 0));
  limit.onTimeout(limit.value, 0);
  expect(limit.value).toBe(1);
});

it("hopes for the maximum until something fails, and again once the receiver is well", () => {
  const limit = new ConcurrencyLimit(64);
  expect(limit.hoped).toBe(64);
  limit.onFailure(4, 0);
  expect(limit.hoped).toBe(2);
  limit.onRecovered();
  expect(limit.hoped).toBe(64);
  limit.onTimeout(2, 0);
  expect(limit.hoped).toBe(1);
});

it("a receiver that fails at random keeps its tries: fewer at a time would fail as often", () => {
  const limit = new ConcurrencyLimit(16);
  for (let count = 1; count <= 100; count += 1)
    if (count % 5 === 0) limit.onFailure(2, 0);
    else limit.onSuccess(2, 0);
  repeat(16, () => limit.onSuccess(2, 0));
  const before = limit.value;
  limit.onFailure(16, 0);
  expect(limit.value).toBe(before);
  limit.onTimeout(16, 0);
  expect(limit.value).toBe(1);
});

it.each(["onTimeout", "onFailure"] as const)(
  "a receiver that fails only with many at a time is given that many slowly again: one more for each round trip (%s)",
  (fail) => {
    const limit = new ConcurrencyLimit(64);
    repeat(10, () => limit[fail](8, 0));
    repeat(6, () => limit.onSuccess(1, 0));
    expect(limit.value).toBe(7);
    repeat(7, () => limit.onSuccess(1, 0));
    expect(limit.value).toBe(7);
    limit.onSuccess(1, 0);
    expect(limit.value).toBe(8);
  },
);

it.each([
  ["a while later", () => 5 * HALF_LIFE_MS],
  ["for another receiver", (limit: ConcurrencyLimit) => (limit.onReceiverChanged(), 0)],
  ["once it is well", (limit: ConcurrencyLimit) => (limit.onRecovered(), 0)],
])("grows fast again past what failed before, %s", (_, change) => {
  const limit = new ConcurrencyLimit(64);
  repeat(10, () => limit.onTimeout(8, 0));
  repeat(6, () => limit.onSuccess(1, 0));
  const nowMs = change(limit);
  repeat(3, () => limit.onSuccess(1, nowMs));
  expect(limit.value).toBe(10);
});

it("another receiver gets four tries at a time at least, and no fewer than the one before it", () => {
  const hung = new ConcurrencyLimit(64);
  hung.onTimeout(4, 0);
  hung.onReceiverChanged();
  expect(hung.value).toBe(4);
  const narrow = new ConcurrencyLimit(2);
  narrow.onTimeout(2, 0);
  narrow.onReceiverChanged();
  expect(narrow.value).toBe(2);
  const well = new ConcurrencyLimit(64);
  repeat(6, () => well.onSuccess(4, 0));
  well.onReceiverChanged();
  expect(well.value).toBe(10);
});
