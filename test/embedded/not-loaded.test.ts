import { expect, it } from "vitest";
import { notLoaded } from "../../src/embedded/not-loaded.ts";

it("an engine that is not installed is told from one that cannot be loaded, each in one line", () => {
  const missing = Object.assign(new Error("Cannot find package 'lmdb'"), {
    code: "ERR_MODULE_NOT_FOUND",
  });
  expect(notLoaded("log", "KAFKA_BROKERS", missing)).toMatchObject({
    name: "UsageError",
    message:
      "the embedded log is not installed: set KAFKA_BROKERS, or run npm ci with optional dependencies",
  });
  const broken = new Error("libstdc++.so.6: cannot open\nRequire stack:");
  expect(notLoaded("log", "KAFKA_BROKERS", broken).message).toBe(
    "the embedded log cannot be loaded (libstdc++.so.6: cannot open): see NODE_OPTIONS, run npm ci, or set KAFKA_BROKERS",
  );
});
