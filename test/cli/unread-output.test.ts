import { execFileSync, spawn } from "node:child_process";
import { once } from "node:events";
import { closeSync, constants, openSync, writeSync } from "node:fs";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, it } from "vitest";
import { freePorts } from "../support/stores/free-port.ts";
import { waitFor } from "../support/wait-for.ts";

const PROGRAM = fileURLToPath(new URL("../../bin/relay.js", import.meta.url));

/** Fills a pipe until it takes nothing more. */
function fill(path: string): void {
  const end = openSync(path, constants.O_WRONLY | constants.O_NONBLOCK);
  try {
    for (let size = 4_096; size >= 1; size = size / 2) writeWhileItFits(end, size);
  } finally {
    closeSync(end);
  }
}

function writeWhileItFits(end: number, size: number): void {
  try {
    for (;;) writeSync(end, Buffer.alloc(size, " "));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== "EAGAIN") throw error;
  }
}

it("a relay whose output nobody takes goes on, and ends when it is told to: it stayed for ever", async () => {
  const directory = await mkdtemp(join(tmpdir(), "relay-unread-"));
  const pipe = join(directory, "output");
  execFileSync("mkfifo", [pipe]);
  const reader = openSync(pipe, constants.O_RDONLY | constants.O_NONBLOCK);
  const [api = 0, ingest = 0, ops = 0] = await freePorts(3);
  const writer = openSync(pipe, constants.O_WRONLY);
  const child = spawn(process.execPath, [PROGRAM, "start"], {
    stdio: ["ignore", writer, "inherit"],
    env: {
      PATH: process.env["PATH"] ?? "",
      RELAY_DATA_DIR: join(directory, "data"),
      RELAY_API_PORT: String(api),
      RELAY_INGEST_PORT: String(ingest),
      RELAY_OPS_PORT: String(ops),
    },
  });
  closeSync(writer);
  try {
    const isReady = async (): Promise<boolean> =>
      (await fetch(`http://127.0.0.1:${ops}/readyz`).catch(() => null))?.ok === true;
    await waitFor("readiness", isReady, 60_000);
    fill(pipe);
    const ended = once(child, "exit");
    child.kill("SIGTERM");
    const timer = setTimeout(() => child.kill("SIGKILL"), 30_000);
    expect(await ended).toEqual([0, null]);
    clearTimeout(timer);
  } finally {
    child.kill("SIGKILL");
    closeSync(reader);
    await rm(directory, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 });
  }
});
