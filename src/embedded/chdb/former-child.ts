import { readFile } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { UsageError } from "../../domain/errors.ts";
import { pidExists, startTime } from "../data-dir-process.ts";
import type { Credentials } from "./credentials-file.ts";

const POLL_MS = 25;

type Child = Pick<Credentials, "pid" | "startedAt">;

/**
 * Waits until the chDB child of an earlier owner is gone: two engines in one directory would destroy it.
 * It ends by itself once its owner's channel has closed.
 * @throws {UsageError} when it is still there after `timeoutMs`
 */
export async function waitForFormerChild(former: Child, timeoutMs: number): Promise<void> {
  const { pid } = former;
  const endAt = performance.now() + timeoutMs;
  while (await isChdbChild(former)) {
    if (performance.now() > endAt)
      throw new UsageError(
        `the embedded ClickHouse of an earlier run (process ${pid}) is still alive: end it (kill -9 ${pid}), then start again`,
      );
    await sleep(POLL_MS);
  }
}

/** Returns whether this very child still runs: its number may have been given to another program since, or to another relay's child. */
async function isChdbChild({ pid, startedAt }: Child): Promise<boolean> {
  if (!pidExists(pid)) return false;
  const now = startTime(pid);
  if (startedAt !== null && now !== null && now !== startedAt) return false;
  if (process.platform !== "linux") return true;
  // A zombie has no command line.
  const commandLine = await readFile(`/proc/${pid}/cmdline`, "utf8").catch(() => "");
  return commandLine.includes("chdb-worker");
}
