import { fork } from "node:child_process";
import { fileURLToPath } from "node:url";
import type { SeedsMessage } from "../simulation/seeds-child.ts";

const CHILD = fileURLToPath(new URL("../simulation/seeds-child.ts", import.meta.url));
const MAX_FAILURES = 10;

/** Runs the seeds in child processes, so that they share the machine's cores. @returns a line per failing seed */
export async function runSeeds(first: number, count: number, workers: number): Promise<string[]> {
  const failures: string[] = [];
  const children = Array.from({ length: workers }, (_, index) => {
    const child = fork(CHILD, [first + index, first + count, workers].map(String), {
      execArgv: ["--import", "tsx"],
      env: { ...process.env, NODE_OPTIONS: "" },
    });
    let at = first + index;
    child.on("message", (message: SeedsMessage) => {
      if (message.kind === "at") {
        at = message.seed;
        return;
      }
      const { seed, violations } = message;
      failures.push(
        `SIM_SEED=${seed}: ${violations.slice(0, 4).join("; ")} (${violations.length})`,
      );
      if (failures.length >= MAX_FAILURES) stop();
    });
    const ended = new Promise<void>((resolve) => {
      child.once("exit", (code, signal) => {
        if (code !== 0 && failures.length < MAX_FAILURES)
          failures.push(`a worker ended with ${signal ?? code} at or after seed ${at}`);
        resolve();
      });
    });
    return { child, ended };
  });
  const stop = (): void => {
    for (const { child } of children) child.kill("SIGKILL");
  };
  process.once("exit", stop);
  await Promise.all(children.map(({ ended }) => ended));
  process.off("exit", stop);
  return failures;
}
