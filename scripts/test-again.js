// Runs the test files that failed in the last `CI=true npm test` once more, each in a new process, and tells which.
import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { relative } from "node:path";

const MOST_FILES = 6;
const RESULTS = ".cache/test-results.json";

const { testResults } = JSON.parse(readFileSync(RESULTS, "utf8"));
const failed = testResults.filter((file) => file.status !== "passed");
const files = failed.map((file) => relative(process.cwd(), file.name));
for (const file of failed)
  for (const test of file.assertionResults.filter(({ status }) => status === "failed"))
    console.log(`failed: ${relative(process.cwd(), file.name)} > ${test.fullName}`);
if (files.length === 0 || files.length > MOST_FILES) {
  console.log(`${files.length} files failed: no second go`);
  process.exit(1);
}
console.log(`second go for ${files.join(", ")}`);
const { status } = spawnSync("npx", ["vitest", "run", ...files], { stdio: "inherit" });
console.log(status === 0 ? `passed at the second go: ${files.join(", ")}` : "failed twice");
process.exit(status ?? 1);
