import { expect, test } from "vitest";
import { connectionLimit } from "../../src/app/connection-limit.ts";

test("the servers and the delivery take a share of the file descriptors that are free, and leave some", () => {
  const files = { max: 256, open: 130 };
  expect(connectionLimit("ingest", files)).toBe(63);
  expect(connectionLimit("api", files)).toBe(25);
  expect(connectionLimit("delivery", { max: 1_024, open: 24 })).toBe(120);
  expect(connectionLimit("ops", { max: 1_024, open: 24 })).toBe(50);
  expect(connectionLimit("ingest", { max: 65_536, open: 136 })).toBe(32_700);
});

test("there is a minimum and a maximum", () => {
  expect(connectionLimit("ingest", { max: 64, open: 70 })).toBe(16);
  expect(connectionLimit("ingest", { max: 1_048_576, open: 100 })).toBe(50_000);
  expect(connectionLimit("api", null)).toBe(50_000);
});

test("the limit of this process is read where the system tells it", () => {
  const limit = connectionLimit("ingest");
  expect(limit).toBeGreaterThanOrEqual(16);
  expect(limit).toBeLessThanOrEqual(50_000);
});
