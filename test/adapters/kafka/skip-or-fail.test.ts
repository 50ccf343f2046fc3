import { afterEach, expect, test, vi } from "vitest";
import { skipOrFail } from "../../support/stores/skip-or-fail.ts";

afterEach(() => {
  vi.unstubAllEnvs();
  vi.restoreAllMocks();
});

test("without CI a store that is missing skips its suite with one line that says how to get one", () => {
  vi.stubEnv("CI", "");
  const warn = vi.spyOn(console, "warn").mockImplementation(() => {});
  expect(skipOrFail("Kafka", new Error("no mvn"))).toBe(true);
  expect(warn.mock.calls).toEqual([
    ["SKIPPED: tests on Kafka. no mvn. `npm run stores` starts one by hand."],
  ]);
});

test("with CI=true a store that is missing is a failure", () => {
  vi.stubEnv("CI", "true");
  expect(() => skipOrFail("Kafka", new Error("no mvn"))).toThrow("CI needs Kafka: no mvn");
});
