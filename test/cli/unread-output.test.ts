import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { closeSync, constants, openSync, writeSync } from "node:fs";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterEach, beforeEach, expect, it } from "vitest";
import { freePorts } from "../support/stores/free-port.ts";
import { waitFor } from "../support/wait-for.ts";

const PROGRAM = fileURLToPath(new URL("../../bin/relay.js", import.meta.url));

/** Fills a pipe until it accepts no more. */
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

/** A named pipe that is never read. */
interface UnreadPipe extends Disposable {
  readonly path: string;
}

function makeUnreadPipe(directory: string): UnreadPipe {
  const path = join(directory, "output");
  execFileSync("mkfifo", [path]);
  const reader = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK);
  return { path, [Symbol.dispose]: () => closeSync(reader) };
}

let directory: string;
let ports: readonly number[];
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "relay-unread-"));
  ports = await freePorts(3);
});
afterEach(() => rm(directory, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 }));

interface Started extends Disposable {
  readonly child: ChildProcess;
  readonly ended: Promise<unknown>;
}

/** Starts `relay start`, printing into the pipe. */
function startInto(pipe: UnreadPipe, stderr: "inherit" | "pipe" = "inherit"): Started {
  const [api, ingest, ops] = ports;
  const writer = openSync(pipe.path, constants.O_WRONLY);
  const child = spawn(process.execPath, [PROGRAM, "start"], {
    stdio: ["ignore", writer, stderr],
    env: {
      PATH: process.env["PATH"] ?? "",
      RELAY_DATA_DIR: join(directory, "data"),
      RELAY_API_PORT: String(api),
      RELAY_INGEST_PORT: String(ingest),
      RELAY_OPS_PORT: String(ops),
    },
  });
  closeSync(writer);
  return {
    child,
    ended: once(child, "exit"),
    [Symbol.dispose]: () => void child.kill("SIGKILL"),
  };
}

/** Waits for its end, and kills it after `ms` at the latest. @returns how it ended */
async function within({ ended, child }: Started, ms: number): Promise<unknown> {
  const timer = setTimeout(() => child.kill("SIGKILL"), ms);
  return ended.finally(() => clearTimeout(timer));
}

it("a relay whose output nobody takes goes on, and ends when it is told to: it stayed for ever", async () => {
  using pipe = makeUnreadPipe(directory);
  using relay = startInto(pipe);
  const isReady = async (): Promise<boolean> =>
    (await fetch(`http://127.0.0.1:${ports[2]}/readyz`).catch(() => null))?.ok === true;
  await waitFor("readiness", isReady, 60_000);
  fill(pipe.path);
  relay.child.kill("SIGTERM");
  expect(await within(relay, 30_000)).toEqual([0, null]);
});

it("regression: a relay that ends since whoever read its output is gone says so: it ended as if it had been told to, and was not started again", async () => {
  const pipe = makeUnreadPipe(directory);
  using relay = startInto(pipe, "pipe");
  let said = "";
  relay.child.stderr?.setEncoding("utf8").on("data", (text: string) => (said += text));
  const isReady = async (): Promise<boolean> =>
    (await fetch(`http://127.0.0.1:${ports[2]}/readyz`).catch(() => null))?.ok === true;
  await waitFor("readiness", isReady, 60_000);
  pipe[Symbol.dispose]();
  // Each request logs a line.
  await fetch(`http://127.0.0.1:${ports[0]}/projects`).catch(() => null);
  expect(await within(relay, 30_000)).toEqual([1, null]);
  expect(said).toContain("the output could not be written");
});

it("a start that fails ends, though nobody takes its output", async () => {
  await mkdir(join(directory, "data"));
  await writeFile(join(directory, "data/clickhouse"), "no directory");
  using pipe = makeUnreadPipe(directory);
  fill(pipe.path);
  using relay = startInto(pipe);
  expect(await within(relay, 60_000)).toEqual([2, null]);
});

it("a command whose messages nobody reads has its own exit code: what it could not write ended it with another", async () => {
  const child = spawn(process.execPath, [PROGRAM, "keys", "create"], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  child.stderr.destroy();
  expect(await once(child, "exit")).toEqual([2, null]);
});
