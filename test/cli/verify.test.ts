import { spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";

const PROGRAM = fileURLToPath(new URL("../../bin/relay.js", import.meta.url));

it.each(["SIGINT", "SIGTERM"] as const)(
  "relay verify that waits for its next line ends on %s: it went on until that line came",
  async (signal) => {
    const child = spawn(process.execPath, [PROGRAM, "verify"], {
      stdio: ["pipe", "pipe", "inherit"],
      env: { PATH: process.env["PATH"] ?? "" },
    });
    const ended = once(child, "exit");
    child.stdin.write('{"id":"first","provider":"github","secret":"s"}\n');
    const [verdict] = await once(child.stdout, "data");
    expect(JSON.parse(String(verdict))).toMatchObject({ id: "first", valid: false });
    child.kill(signal);
    const timer = setTimeout(() => child.kill("SIGKILL"), 10_000);
    expect(await ended).toEqual([0, null]);
    clearTimeout(timer);
  },
);
