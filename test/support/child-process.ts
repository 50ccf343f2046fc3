import { fork } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { once } from "node:events";

/** A child process that sends messages over its IPC channel. */
export interface Child<Ready> extends AsyncDisposable {
  readonly ready: Ready;
  readonly process: ChildProcess;
}

/** A parent that is killed would leave it running, and in the way of the next measurement. */
const END_WITH_PARENT = "data:text/javascript,process.once('disconnect',()=>process.exit())";

/** Starts a file as a child process and waits for its first message. */
export async function startChild<Ready>(
  file: string,
  args: readonly string[],
  execArgv: readonly string[] = [],
): Promise<Child<Ready>> {
  const child = fork(file, [...args], {
    execArgv: ["--import", END_WITH_PARENT, ...execArgv],
  });
  const failed = once(child, "exit").then(([code]) => {
    throw new Error(`${file} ended with ${String(code)} before it was ready`);
  });
  const [ready] = (await Promise.race([once(child, "message"), failed])) as [Ready];
  failed.catch(() => {});
  return {
    ready,
    process: child,
    async [Symbol.asyncDispose]() {
      if (child.exitCode !== null || child.signalCode !== null) return;
      const exited = once(child, "exit");
      child.kill("SIGTERM");
      await exited;
    },
  };
}
