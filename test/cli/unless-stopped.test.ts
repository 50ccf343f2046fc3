import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer, type AddressInfo, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it, vi } from "vitest";
import { unlessStopped } from "../../src/cli/unless-stopped.ts";

const STOPPED = { code: 1, stderr: "relay: stopped before it was done: run it again\n" };

/** Runs a command on a store and a relay that do not answer, and tells it to stop once it has asked. */
async function run(...args: string[]): Promise<unknown> {
  const sockets = new Set<Socket>();
  // Answers no question, not even that for TLS.
  await using silent = createServer((socket) => void sockets.add(socket.on("error", () => {})));
  silent.listen(0, "127.0.0.1");
  await once(silent, "listening");
  const asked = once(silent, "connection");
  const { port } = silent.address() as AddressInfo;
  const child = spawn(process.execPath, ["bin/relay.js", ...args], {
    env: {
      PATH: process.env["PATH"] ?? "",
      DATABASE_URL: `postgresql://relay@127.0.0.1:${port}/relay`,
      RELAY_ENCRYPTION_KEY: Buffer.alloc(32).toString("base64"),
      RELAY_API_HOST: "127.0.0.1",
      RELAY_API_PORT: String(port),
      RELAY_BOOTSTRAP_API_KEY: "rk_testtest_0123456789abcdefghijklmnop",
    },
    stdio: ["ignore", "inherit", "pipe"],
  });
  let stderr = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => (stderr += text));
  const ended = once(child, "close");
  await asked;
  child.kill("SIGTERM");
  const [code] = (await ended) as [number | null];
  for (const socket of sockets) socket.destroy();
  return { args, code, stderr };
}

it("regression: work that a signal finds under way goes on to its end: a key was made, and the command failed and said to run it again", async () => {
  const stop = new AbortController();
  let end = (): void => {};
  const ended = unlessStopped(stop, new Promise<void>((resolve) => (end = resolve)));
  stop.abort();
  end();
  await ended;
  await unlessStopped(stop, Promise.resolve());
  const failed = unlessStopped(stop, Promise.reject(new Error("no such key")));
  await expect(failed).rejects.toThrow("no such key");
});

it("what hangs is left a few seconds after the signal, and may fail then unheard", async () => {
  const stop = new AbortController();
  let fail: (error: Error) => void = () => {};
  let error: unknown = null;
  void unlessStopped(stop, new Promise<void>((_, reject) => (fail = reject))).catch(
    (reason: unknown) => (error = reason),
  );
  await new Promise((resolve) => setImmediate(resolve));
  stop.abort();
  await new Promise((resolve) => setImmediate(resolve));
  expect(error).toBeNull();
  await vi.waitFor(() => expect(String(error)).toContain("stopped before it was done"), {
    timeout: 15_000,
    interval: 100,
  });
  fail(new Error("too late"));
}, 20_000);

it("every command that waits for a store ends a few seconds after the signal, though the store does not answer", async () => {
  const directory = await mkdtemp(join(tmpdir(), "relay-unless-stopped-"));
  const oldKeyFile = join(directory, "old.key");
  await writeFile(oldKeyFile, Buffer.alloc(32, 1).toString("base64"));
  const ended = await Promise.all([
    run("migrate"),
    run("keys", "create", "--org", "acme"),
    run("keys", "list", "--org", "acme"),
    run("keys", "revoke", "rk_12345678", "--org", "acme"),
    run("secrets", "reencrypt", "--old-key-file", oldKeyFile),
  ]);
  expect(ended).toMatchObject(ended.map(() => STOPPED));
  await rm(directory, { recursive: true });
}, 60_000);

it("regression: a replay ends a few seconds after the signal, though the relay does not answer: it went on for half a minute", async () => {
  const startedMs = performance.now();
  expect(await run("replay", "--destination", "dst_1")).toMatchObject(STOPPED);
  expect(performance.now() - startedMs).toBeLessThan(20_000);
}, 60_000);
