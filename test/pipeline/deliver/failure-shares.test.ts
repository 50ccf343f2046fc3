import { expect, it } from "vitest";
import { FailureShares } from "../../../src/pipeline/deliver/lane/failure-shares.ts";

const HALF_LIFE_MS = 60_000;

/** Notes tries with so many in flight, of which every `nth` failed. */
function note(shares: FailureShares, inFlight: number, tries: number, nth: number): void {
  for (let count = 1; count <= tries; count += 1) shares.note(inFlight, count % nth === 0, 0);
}

it("fewer in flight help where clearly more failed with many than with few, and twenty tries with few are known", () => {
  const shares = new FailureShares();
  note(shares, 3, 19, 5);
  expect(shares.failAnyway(16, 0)).toBe(false);
  shares.note(3, true, 0);
  expect(shares.failAnyway(16, 0)).toBe(true);
  // As many as with few, and then all.
  note(shares, 16, 40, 5);
  expect(shares.failAnyway(16, 0)).toBe(true);
  expect(shares.failMore(16, 0)).toBe(false);
  note(shares, 16, 40, 1);
  expect(shares.failAnyway(16, 0)).toBe(false);
  expect(shares.failMore(16, 0)).toBe(true);
});

it("a receiver that fails half of its tries with few in flight is not well, whatever the cause", () => {
  const shares = new FailureShares();
  note(shares, 2, 40, 2);
  expect(shares.failAnyway(16, 0)).toBe(false);
});

it("a few failures with many count for as much as there is to compare them with", () => {
  const shares = new FailureShares();
  note(shares, 2, 20, 5);
  // Nothing is known of fewer.
  expect(shares.failMore(2, 0)).toBe(true);
  for (let count = 0; count < 12; count += 1) shares.note(16, count % 3 !== 0, 0);
  expect(shares.failMore(16, 0)).toBe(true);
});

it("what is known of few in flight counts for half as much every minute", () => {
  const shares = new FailureShares();
  note(shares, 2, 40, 5);
  expect(shares.failAnyway(16, 0.4 * HALF_LIFE_MS)).toBe(true);
  expect(shares.failAnyway(16, 0.9 * HALF_LIFE_MS)).toBe(true);
  expect(shares.failAnyway(16, 1.1 * HALF_LIFE_MS)).toBe(false);
});

it("a single failure with more in flight than ever says nothing: it may be chance", () => {
  const shares = new FailureShares();
  note(shares, 2, 40, 41);
  shares.note(16, true, 0);
  expect(shares.failMore(16, 0)).toBe(false);
  note(shares, 16, 2, 1);
  expect(shares.failMore(16, 0)).toBe(true);
});

it("a receiver that fails one try in ten for thousands of tries is known to fail as often", () => {
  const shares = new FailureShares();
  note(shares, 2, 5_000, 10);
  expect(shares.failAnyway(16, 0)).toBe(true);
});

it("what a receiver did thousands of tries ago does not hide that it fails now", () => {
  const shares = new FailureShares();
  note(shares, 2, 10_000, 10_001);
  note(shares, 2, 200, 1);
  expect(shares.failAnyway(16, 0)).toBe(false);
});
