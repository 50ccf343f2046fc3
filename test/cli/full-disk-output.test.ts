import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";

/** Runs `relay <args>` with its output on a full disk. */
async function runOntoFullDisk(
  args: string,
  dataDir: string,
): Promise<{ readonly code: number; readonly stderr: string }> {
  const command = `"${process.execPath}" bin/relay.js ${args} >/dev/full </dev/null`;
  const env = { PATH: process.env["PATH"] ?? "", RELAY_DATA_DIR: dataDir };
  try {
    const { stderr } = await promisify(execFile)("sh", ["-c", command], { env });
    return { code: 0, stderr };
  } catch (error) {
    const { code, stderr } = error as { readonly code: number; readonly stderr: string };
    return { code, stderr };
  }
}

describe.skipIf(!existsSync("/dev/full"))("output that cannot be written", () => {
  let dataDir: string;
  beforeAll(async () => {
    dataDir = await mkdtemp(join(tmpdir(), "relay-full-output-"));
  });
  afterAll(() => rm(dataDir, { recursive: true, force: true }));

  it.each(["--version", "keys create --org acme"])(
    "relay %s: one line that says so, exit 1; the key was lost, with exit 0",
    async (args) => {
      const { code, stderr } = await runOntoFullDisk(args, dataDir);
      expect(stderr.trim().split("\n").at(-1)).toMatch(
        /^relay: the output could not be written \(ENOSPC/,
      );
      expect(stderr).not.toContain("    at ");
      expect(code).toBe(1);
    },
    60_000,
  );
});
