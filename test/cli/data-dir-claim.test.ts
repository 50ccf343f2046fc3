import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it } from "vitest";
import { claimDataDir } from "../../src/embedded/data-dir.ts";
import { runRelay } from "../support/relay-process.ts";

let dataDir: string;
beforeEach(async () => {
  dataDir = await mkdtemp(join(tmpdir(), "relay-claim-"));
});
afterEach(() => rm(dataDir, { recursive: true, force: true, maxRetries: 20, retryDelay: 100 }));

const create = (env: Record<string, string>) =>
  runRelay(["keys", "create", "--org", "default"], env);

it("a command that works alone on the embedded stores claims the data directory, and gives it back", async () => {
  await using claim = await expectOwner();
  const waiting = create({ RELAY_DATA_DIR: dataDir });
  let done = false;
  void waiting.then(() => (done = true));
  // While another process holds the directory and serves nothing yet, it touches none of its files.
  await new Promise((resolve) => setTimeout(resolve, 2_500));
  expect(done).toBe(false);
  await claim[Symbol.asyncDispose]();
  expect(await waiting).toMatchObject({ code: 0, stdout: expect.stringMatching(/^rk_/) });
  await using _again = await expectOwner();
});

async function expectOwner() {
  const claim = await claimDataDir(dataDir);
  if (claim.kind !== "owner") throw new Error(`process ${claim.ownerPid} has it`);
  return claim;
}

it("a relay that starts while a command has the directory is told so: it was called a running relay", async () => {
  const command = await claimDataDir(dataDir, "command");
  if (command.kind !== "owner") throw new Error(`process ${command.ownerPid} has it`);
  expect(await runRelay(["start"], { RELAY_DATA_DIR: dataDir })).toMatchObject({
    code: 2,
    stderr: expect.stringMatching(
      /^relay: a command \(process \d+\) works on .*: start again when/,
    ),
  });
  await command[Symbol.asyncDispose]();
  await using _again = await expectOwner();
});
