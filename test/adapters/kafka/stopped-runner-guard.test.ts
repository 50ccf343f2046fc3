import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const CHILD = fileURLToPath(new URL("stopped-runner-child.ts", import.meta.url));

test("regression: a consumer that is stopped while the set of brokers changes comes to an end", async () => {
  const { stdout } = await promisify(execFile)(process.execPath, ["--import", "tsx", CHILD], {
    timeout: 30_000,
    killSignal: "SIGKILL",
  });
  expect(stdout).toBe("left 1 time(s)\n");
}, 60_000);
