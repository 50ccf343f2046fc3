import { defineConfig } from "vitest/config";
import { ResultsReporter } from "./test/support/results-reporter.ts";

// Piscina loads TypeScript workers in tests through tsx.
process.env["NODE_OPTIONS"] = `${process.env["NODE_OPTIONS"] ?? ""} --import tsx`.trim();

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    globalSetup: ["test/support/global-setup.ts"],
    setupFiles: ["test/support/seed-fast-check.ts"],
    pool: "forks",
    // Tests with real servers and kills share two cores there: one more try, and the report names what needed it.
    retry: process.env["CI"] === "true" ? 1 : 0,
    testTimeout: 60_000,
    hookTimeout: 120_000,
    teardownTimeout: 20_000,
    maxWorkers: 2,
    reporters: process.env["CI"] === "true" ? ["default", new ResultsReporter()] : ["default"],
    coverage: { provider: "v8", include: ["src/**"] },
  },
});
