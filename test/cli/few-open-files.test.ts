import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, it } from "vitest";

it("a start with too few open files is one line that names the limit: it was a stack of Node's own modules", async () => {
  const dataDir = await mkdtemp(join(tmpdir(), "relay-few-files-"));
  const command = `ulimit -n 110; exec "${process.execPath}" bin/relay.js start`;
  const env = { PATH: process.env["PATH"] ?? "", RELAY_DATA_DIR: dataDir };
  try {
    const failed = promisify(execFile)("sh", ["-c", command], { env, timeout: 50_000 });
    const { code, stderr } = await failed.then(
      () => ({ code: 0, stderr: "" }),
      (error: { readonly code: number; readonly stderr: string }) => error,
    );
    expect(stderr).toMatch(/^relay: no more files can be opened \(.*EMFILE.*ulimit -n/m);
    expect(stderr).not.toContain("    at ");
    expect(code).toBe(1);
  } finally {
    await rm(dataDir, { recursive: true, force: true });
  }
}, 60_000);
