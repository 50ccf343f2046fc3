import { mkdirSync, rmSync, writeFileSync } from "node:fs";
import { dirname } from "node:path";
import type { Reporter, TestModule } from "vitest/node";

const RESULTS_FILE = ".cache/test-results.json";

/** Writes what `scripts/test-again.js` reads: the files that did not pass, and errors outside any test. */
export class ResultsReporter implements Reporter {
  onInit(): void {
    // An aborted run leaves no results, not those of an earlier run.
    rmSync(RESULTS_FILE, { force: true });
  }

  onTestRunEnd(
    modules: readonly TestModule[],
    unhandledErrors: readonly { readonly message: string }[],
  ): void {
    const failed = modules
      .filter((file) => !["passed", "skipped"].includes(file.state()))
      .map((file) => ({
        file: file.relativeModuleId,
        tests: [...file.children.allTests("failed")].map(({ fullName }) => fullName),
      }));
    mkdirSync(dirname(RESULTS_FILE), { recursive: true });
    const unhandled = unhandledErrors.map(({ message }) => message);
    writeFileSync(RESULTS_FILE, JSON.stringify({ failed, unhandled }, null, 2));
  }
}
