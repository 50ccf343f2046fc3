import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, expect, test } from "vitest";

const root = fileURLToPath(new URL("../..", import.meta.url));
const FLAKY = `test("flaky", () => {
  const isSecondGo = existsSync("flag");
  writeFileSync("flag", "");
  expect(isSecondGo).toBe(true);
});`;
const FILES = {
  passes: `test("passes", () => {});`,
  flaky: FLAKY,
  fails: `test("fails", () => expect(1).toBe(2));`,
  dies: `test("dies", async () => {
  process.kill(process.pid, "SIGKILL");
  await new Promise(() => {});
});`,
  leaks: `test("leaks", async () => {
  setTimeout(() => { throw new Error("late"); }, 10);
  await new Promise((resolve) => setTimeout(resolve, 50));
});`,
} as const;

let trees: string;
beforeAll(async () => {
  trees = await mkdtemp(join(tmpdir(), "relay-test-again-"));
});
afterAll(() => rm(trees, { recursive: true, force: true }));

/** Makes a tree of test files and tests it as `.ci/run` does. */
async function makeTree(files: readonly (keyof typeof FILES)[]): Promise<string> {
  const tree = join(trees, files.join("-"));
  await mkdir(join(tree, ".cache"), { recursive: true });
  await symlink(join(root, "node_modules"), join(tree, "node_modules"));
  await writeFile(join(tree, "package.json"), `{ "type": "module" }`);
  const head = `import { existsSync, writeFileSync } from "node:fs";
import { expect, test } from "vitest";
`;
  for (const name of files) await writeFile(join(tree, `${name}.test.ts`), head + FILES[name]);
  const reporter = join(root, "test/support/results-reporter.ts");
  await writeFile(
    join(tree, "vitest.config.ts"),
    `import { ResultsReporter } from ${JSON.stringify(reporter)};
export default { test: { pool: "forks", reporters: ["default", new ResultsReporter()] } };`,
  );
  return tree;
}

function run(
  tree: string,
  ...command: readonly string[]
): Promise<{ readonly code: number; readonly output: string }> {
  return new Promise((resolve) => {
    const env = { ...process.env, NODE_OPTIONS: "" };
    execFile(process.execPath, command, { cwd: tree, env }, (error, stdout, stderr) =>
      resolve({ code: error === null ? 0 : Number(error.code), output: stdout + stderr }),
    );
  });
}

const vitest = join(root, "node_modules/vitest/vitest.mjs");
const again = join(root, "scripts/test-again.js");

test.each([
  [["passes", "flaky"], 0, "passed at the second go: flaky.test.ts"],
  [["fails", "flaky"], 1, "failed twice"],
  [["dies", "flaky"], 1, "no second go"],
  [["leaks", "flaky"], 1, "no second go"],
] as const)("of %j the second go ends with %d", async (files, code, says) => {
  const tree = await makeTree(files);
  expect((await run(tree, vitest, "run")).code).toBe(1);
  const second = await run(tree, again);
  expect(second.output).toContain(says);
  expect(second.code).toBe(code);
});

test("a run that was ended is not judged by an earlier one's results", async () => {
  const tree = await makeTree(["flaky", "passes", "fails"]);
  await run(tree, vitest, "run", "flaky");
  const config = join(tree, "vitest.config.ts");
  const ended = join(tree, "ended.ts");
  await writeFile(ended, `export const setup = () => process.kill(process.pid, "SIGKILL");`);
  await writeFile(
    config,
    `import { ResultsReporter } from ${JSON.stringify(join(root, "test/support/results-reporter.ts"))};
export default { test: { globalSetup: ["ended.ts"], reporters: [new ResultsReporter()] } };`,
  );
  await run(tree, vitest, "run");
  const second = await run(tree, again);
  expect(second.output).toContain("did not come to its end");
  expect(second.code).toBe(1);
});
