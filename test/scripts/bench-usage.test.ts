import { spawnSync } from "node:child_process";
import { describe, expect, it } from "vitest";

const runBench = (file: string, ...args: string[]) =>
  spawnSync(process.execPath, ["--import", "tsx", `bench/${file}`, ...args], {
    encoding: "utf8",
    timeout: 60_000,
  });

describe("a bench that takes its numbers one after the other", () => {
  it.each(["verify.ts", "cluster.ts", "run-all.ts"])(
    "shows the usage of %s when asked: it ran, with NaN for each figure",
    (file) => {
      const run = runBench(file, "--help");
      expect(run).toMatchObject({ status: 0, stderr: "" });
      expect(run.stdout).toMatch(/^\S.*bench.*\n$/);
    },
  );

  it.each([
    [["ten"], "projects takes a number, not ten"],
    [["1", "2", "3", "4", "5"], "too many arguments: 5"],
  ])("says what is wrong with %j above its usage, and does not start", (args, message) => {
    const run = runBench("api.ts", ...args);
    expect(run).toMatchObject({ status: 2, stdout: "" });
    expect(run.stderr).toContain(`${message}\n\nnode scripts/build.js && npx tsx bench/api.ts [`);
  });
});
