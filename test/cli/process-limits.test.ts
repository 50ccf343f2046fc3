import { execFile } from "node:child_process";
import { syncBuiltinESMExports } from "node:module";
import { PassThrough, Readable } from "node:stream";
import { promisify } from "node:util";
import threads from "node:worker_threads";
import { expect, it } from "vitest";
import { runProgram } from "../../src/cli/program.ts";
import { LogError } from "../../src/domain/log.ts";
import { temporaryDir } from "../support/log-lmdb.ts";

it("a start with too few open files is one line that names the limit: it was a stack of Node's own modules", async () => {
  const command = `ulimit -n 200; exec "${process.execPath}" bin/relay.js start`;
  const env = { PATH: process.env["PATH"] ?? "" };
  const failed = promisify(execFile)("sh", ["-c", command], { env, timeout: 50_000 });
  await expect(failed).rejects.toMatchObject({
    code: 2,
    stdout: "",
    stderr:
      "webhook-relay may open only 200 files: raise the limit (ulimit -n) to 1024 or more, or to 256 at least\n",
  });
}, 60_000);

it("regression: a start whose files may not grow is one line that names the limit: it said that the database cannot be opened, and to restore a backup", async () => {
  const command = `ulimit -f 100; exec "${process.execPath}" bin/relay.js start`;
  const env = { PATH: process.env["PATH"] ?? "" };
  const failed = promisify(execFile)("sh", ["-c", command], { env, timeout: 50_000 });
  await expect(failed).rejects.toMatchObject({
    code: 2,
    stderr: expect.stringMatching(
      /^relay: this process may write files of \d+ bytes only, .*: raise the limit \(ulimit -f\)/,
    ),
  });
}, 60_000);

it("regression: a start without room for the log's map is one line that names the limit: the process ended with a segmentation fault", async () => {
  await using dataDir = await temporaryDir();
  const command = `ulimit -v ${200 * 1024 * 1024}; exec "${process.execPath}" bin/relay.js start`;
  const env = {
    PATH: process.env["PATH"] ?? "",
    RELAY_DATA_DIR: dataDir.path,
    RELAY_API_PORT: "0",
    RELAY_INGEST_PORT: "0",
    RELAY_OPS_PORT: "0",
  };
  const failed = promisify(execFile)("sh", ["-c", command], { env, timeout: 50_000 });
  await expect(failed).rejects.toMatchObject({
    code: 2,
    stderr: expect.stringMatching(
      /^relay: this process may use \d+ bytes of address space only, .*: lift the limit \(ulimit -v\)/,
    ),
  });
}, 60_000);

it("what could not be made since no more files can be opened is one line, whatever it was", async () => {
  const cause = new Error("EMFILE: too many open files, open 'answer.js'");
  const stdin = new Readable({
    read() {
      this.destroy(new Error("it cannot be made", { cause }));
    },
  });
  const stderr = new PassThrough({ encoding: "utf8" });
  const io = { argv: ["verify"], env: {}, signal: new AbortController().signal, stdin };
  expect(await runProgram({ ...io, stdout: new PassThrough(), stderr })).toBe(1);
  expect(stderr.read()).toBe(
    "relay: no more files can be opened (EMFILE: too many open files, open 'answer.js'): raise the limit of open files (ulimit -n) to 1024 or more\n",
  );
});

it.each([
  [
    new LogError("log_unavailable", "the log cannot be opened: EIO"),
    "the log cannot be opened: EIO",
  ],
  [
    Object.assign(new Error("ENOSPC: no space left on device, write"), { code: "ENOSPC" }),
    "the disk is full (ENOSPC: no space left on device, write): make room on it, or set RELAY_DATA_DIR to a directory on another one",
  ],
])("what ends a command is one line without a stack: %s", async (error, line) => {
  const stdin = new Readable({
    read() {
      this.destroy(error);
    },
  });
  const stderr = new PassThrough({ encoding: "utf8" });
  const io = { argv: ["verify"], env: {}, signal: new AbortController().signal, stdin };
  expect(await runProgram({ ...io, stdout: new PassThrough(), stderr })).toBe(1);
  expect(stderr.read()).toBe(`relay: ${line}\n`);
});

it("regression: a start for which no thread can be made is one line that names the limit: it was a stack that said EAGAIN", async () => {
  await using dataDir = await temporaryDir();
  const io = {
    argv: ["keys", "list", "--org", "default"],
    env: { RELAY_DATA_DIR: dataDir.path },
    signal: new AbortController().signal,
    stdin: Readable.from([]),
  };
  const stderr = new PassThrough({ encoding: "utf8" });
  using _ = refuseThreads();
  expect(await runProgram({ ...io, stdout: new PassThrough(), stderr })).toBe(1);
  expect(stderr.read()).toBe(
    "relay: no more threads can be made (EAGAIN): raise the limit of processes (ulimit -u, or that of the container or the service) to 512 or more\n",
  );
}, 60_000);

/** Replaces Node's threads by ones that the system refuses, as at the limit of processes, until it is disposed. */
function refuseThreads(): Disposable {
  const { Worker } = threads;
  threads.Worker = function refused() {
    throw Object.assign(new Error("EAGAIN"), { code: "ERR_WORKER_INIT_FAILED" });
  } as unknown as typeof Worker;
  syncBuiltinESMExports();
  return {
    [Symbol.dispose]() {
      threads.Worker = Worker;
      syncBuiltinESMExports();
    },
  };
}
