import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { runRelay } from "../support/relay-process.ts";

describe("relay demo", () => {
  let temporary: string;
  beforeEach(async () => {
    temporary = await mkdtemp(join(tmpdir(), "relay-demo-test-"));
  });
  afterEach(() => rm(temporary, { recursive: true, force: true }));

  it("interrupted, tells so in one line and leaves nothing behind; it died with a stack", async () => {
    const { code, stderr } = await interruptDemo({ TMPDIR: temporary });
    expect(stderr).toBe("relay: the demo was interrupted\n");
    expect(code).toBe(1);
    expect((await readdir(temporary)).filter((name) => name.startsWith("relay-"))).toEqual([]);
  }, 90_000);

  it("regression: interrupted while the relay starts, makes and sends nothing: all webhooks were sent first, and an impatient second Ctrl-C left the directory behind", async () => {
    const { code, stderr } = await interruptDemo({ TMPDIR: temporary, LOG_LEVEL: "info" });
    expect(code).toBe(1);
    expect(stderr).toContain("relay: the demo was interrupted\n");
    expect(stderr).not.toContain("api.answered");
  }, 90_000);

  it("without a temporary directory says which variable to set; it died with a stack", async () => {
    const { code, stderr } = await runRelay(["demo"], { TMPDIR: join(temporary, "missing") });
    expect(stderr).toBe(
      `relay: no directory can be made in ${join(temporary, "missing")} (ENOENT): set TMPDIR to one that this user may write\n`,
    );
    expect(code).toBe(2);
  });
});

/** Interrupts a demo as soon as it has printed something. */
async function interruptDemo(env: Readonly<Record<string, string>>) {
  const child = spawn(process.execPath, ["bin/relay.js", "demo"], {
    env: { PATH: process.env["PATH"] ?? "", ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  await once(child.stdout, "data");
  child.kill("SIGINT");
  child.stdout.resume();
  const [code] = (await once(child, "close")) as [number | null];
  return { code, stderr };
}
