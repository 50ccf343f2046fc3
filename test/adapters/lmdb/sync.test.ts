import { execFileSync, spawnSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { collect, record, text } from "../../support/log-consumer.ts";
import { openTestLog, temporaryDir } from "../../support/log-lmdb.ts";
import { skipOrFail } from "../../support/stores/skip-or-fail.ts";

const support = (name: string) => fileURLToPath(new URL(`../../support/${name}`, import.meta.url));
const canCompile = process.platform === "linux" && spawnSync("gcc", ["--version"]).status === 0;

describe("the real sync", () => {
  it.skipIf(!canCompile && skipOrFail("gcc", "delaying fdatasync needs it, and Linux"))(
    "is waited for by an append, and its failure refuses the append and leaves nothing behind",
    async () => {
      await using dir = await temporaryDir();
      await using copies = await temporaryDir();
      const shim = join(dir.path, "shim.so");
      execFileSync("gcc", ["-shared", "-fPIC", "-o", shim, support("log-sync-shim.c")]);
      const control = join(dir.path, "control");
      writeFileSync(control, "0 0");
      const copy = join(copies.path, "after-failures");
      const output = execFileSync(
        process.execPath,
        ["--import", "tsx", support("log-sync-child.ts"), dir.path, copy],
        { env: { ...process.env, NODE_OPTIONS: "", LD_PRELOAD: shim, LOG_SYNC_CONTROL: control } },
      );
      const seen = JSON.parse(output.toString());
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
});
