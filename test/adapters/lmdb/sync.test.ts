import { execFileSync, spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { syncDirectory, syncDirectoryBeside } from "../../../src/adapters/lmdb/sync-files.ts";
import { collect, record, text } from "../../support/log-consumer.ts";
import { openTestLog, temporaryDir } from "../../support/log-lmdb.ts";
import { skipOrFail } from "../../support/stores/skip-or-fail.ts";

const support = (name: string) => fileURLToPath(new URL(`../../support/${name}`, import.meta.url));
const canCompile = process.platform === "linux" && spawnSync("gcc", ["--version"]).status === 0;

const isSkipped = !canCompile && skipOrFail("gcc", "delaying fdatasync needs it, and Linux");

/** Runs a child in which the disk fails as it writes to a control file. @returns what it printed */
function runChild(name: string, dir: string, ...args: readonly string[]) {
  const shim = join(dir, "shim.so");
  execFileSync("gcc", ["-shared", "-fPIC", "-o", shim, support("log-sync-shim.c")]);
  const control = join(dir, "control");
  writeFileSync(control, "0 0 0");
  const output = execFileSync(process.execPath, ["--import", "tsx", support(name), dir, ...args], {
    env: { ...process.env, NODE_OPTIONS: "", LD_PRELOAD: shim, LOG_SYNC_CONTROL: control },
  });
  return JSON.parse(output.toString());
}

it("a directory whose names cannot be made durable is no success", async () => {
  await using dir = await temporaryDir();
  const gone = join(dir.path, "gone");
  expect(() => syncDirectory(gone)).toThrow("ENOENT");
  await expect(syncDirectoryBeside(gone)).rejects.toThrow("ENOENT");
});

describe("the real sync", () => {
  it.skipIf(isSkipped)(
    "is waited for by an append, and its failure refuses the append and leaves nothing behind",
    async () => {
      await using dir = await temporaryDir();
      await using copies = await temporaryDir();
      const copy = join(copies.path, "after-failures");
      const seen = runChild("log-sync-child.ts", dir.path, copy);
      expect(seen.slow.ms).toBeGreaterThanOrEqual(390);
      expect(seen.slow.offset).toBe(1);
      expect(seen.failed.code).toBe("log_unavailable");
      expect(seen.full.code).toBe("log_unavailable");
      expect(seen.after.offset).toBe(2);

      await using log = await openTestLog(dir.path);
      await using consumer = await collect(log, {
        group: "g",
        topics: ["events"],
        deadlineMs: 20_000,
      });
      expect((await consumer.received(3)).map(text)).toEqual(["fast", "slow", "after"]);

      // Opened in the state the failures left: what was refused does not come back.
      await using left = await openTestLog(copy);
      const [next] = await left.append([record("events", 0, "next")]);
      expect(next!.offset).toBe(2);
    },
    60_000,
  );

  it.skipIf(isSkipped)(
    "regression: LMDB that could not write its meta page once is reopened: until a restart nothing was read or trimmed, and what no segment takes was refused",
    async () => {
      await using dir = await temporaryDir();
      const answers: [what: string, answer: number | string][] = runChild(
        "log-meta-page-child.ts",
        dir.path,
      );
      const taken = answers.filter(([, answer]) => typeof answer === "number");
      const refused = answers.filter(([, answer]) => typeof answer !== "number");
      expect(taken.map(([, offset]) => offset)).toEqual(taken.map((_, index) => index));
      expect(new Set(refused.map(([, code]) => code))).toEqual(new Set(["log_unavailable"]));
      const refusedFirst = refused.map(([what]) => what).slice(0, 2);
      expect(refusedFirst).toEqual(["large, not written", expect.stringContaining("waits")]);
      expect(taken.map(([what]) => what)).toEqual(
        expect.arrayContaining(["large", "waits 0", "large again"]),
      );

      await using log = await openTestLog(dir.path);
      await using consumer = await collect(log, {
        group: "g",
        topics: ["events"],
        deadlineMs: 20_000,
      });
      const read = await consumer.received(taken.length);
      expect(read.map((one) => text(one).trim())).toEqual(taken.map(([what]) => what));
    },
    60_000,
  );

  it.skipIf(isSkipped)(
    "regression: LMDB does not find that its file cannot be written, as when the disk has failed and its file system turned read-only: its text about each such write was too long for it, and ended the process",
    async () => {
      await using dir = await temporaryDir();
      const answers: [what: string, answer: number | string][] = runChild(
        "log-read-only-child.ts",
        dir.path,
      );
      const refused = answers.filter(([what]) => what.startsWith("read-only"));
      expect(answers[0]).toEqual(["before", 0]);
      expect(refused).toHaveLength(20);
      for (const [, answer] of refused)
        expect(answer).toMatch(/^the log cannot be written: EROFS: /);
      expect(answers.at(-1)).toEqual(["after", 2]);
    },
    60_000,
  );
});
