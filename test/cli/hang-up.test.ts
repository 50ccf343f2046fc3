import { spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import { makeRelayProcess } from "../support/relay-process.ts";
import { waitFor } from "../support/wait-for.ts";

const HANG_UP_LOST_MS = 500;

test("regression: without a terminal a hang-up is not the relay's, as nohup has it: it was killed at once", async () => {
  await using relay = await makeRelayProcess();
  await relay.start();
  process.kill(relay.pid(), "SIGHUP");
  await delay(HANG_UP_LOST_MS);
  // A stop may take longer than that.
  expect(relay.output()).not.toContain("relay.stopping");
  expect(relay.isRunning()).toBe(true);
  expect(await relay.kill("SIGTERM")).toBe(0);
}, 60_000);

test("regression: a relay on a terminal stops in order when that hangs up: it was killed at once", async () => {
  await using relay = await makeRelayProcess();
  // script(1) provides the terminal. The shell's process becomes the relay's.
  const command = 'echo "pid $$"; exec "$NODE" bin/relay.js start';
  const terminal = spawn("script", ["-qec", command, "/dev/null"], {
    env: { ...relay.env, NODE: process.execPath },
    stdio: ["pipe", "pipe", "inherit"],
  });
  let output = "";
  terminal.stdout.setEncoding("utf8").on("data", (text: string) => (output += text));
  const ended = once(terminal, "close");
  await waitFor("the relay", () => output.includes("relay.ready"));
  const pid = Number(/pid (\d+)/.exec(output)?.[1]);
  process.kill(pid, "SIGHUP");
  expect(await ended).toEqual([0, null]);
  expect(output).toContain("relay.stopped");
}, 60_000);
