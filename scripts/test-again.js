// Reruns the test files that failed in the last `CI=true npm test`, each in a new process, and lists them.
// Not when that run did not finish or something failed outside any test: a rerun would not show it.
import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";

const MAX_FILES = 6;
const RESULTS = ".cache/test-results.json";

if (!existsSync(RESULTS)) {
  console.log("the test run did not come to its end: no second go");
  process.exit(1);
}
const { failed, unhandled } = JSON.parse(readFileSync(RESULTS, "utf8"));
for (const { file, tests } of failed)
  for (const test of tests) console.log(`failed: ${file} > ${test}`);
for (const message of unhandled) console.log(`failed outside of every test: ${message}`);
const files = failed.map(({ file }) => file);
if (unhandled.length > 0 || files.length === 0 || files.length > MAX_FILES) {
  console.log(`${files.length} files failed, ${unhandled.length} other errors: no second go`);
  process.exit(1);
}
console.log(`second go for ${files.join(", ")}`);
const { status } = spawnSync("npx", ["vitest", "run", ...files], { stdio: "inherit" });
console.log(status === 0 ? `passed at the second go: ${files.join(", ")}` : "failed twice");
process.exit(status ?? 1);
