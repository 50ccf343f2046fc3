import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";

/** A server process that ends with its parent, or earlier when disposed of. */
export interface ServerProcess extends AsyncDisposable {
  readonly pid: number;
  readonly exited: boolean;
  signal(name: NodeJS.Signals): void;
  /** Returns the last lines that it printed. */
  output(): string;
}

export function startProcess(
  command: string,
  args: readonly string[],
  env: NodeJS.ProcessEnv,
): ServerProcess {
  const child: ChildProcess = spawn(command, args, {
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
  let output = "";
  const keep = (chunk: Buffer) => {
    output = (output + chunk.toString()).slice(-8_000);
  };
  child.stdout?.on("data", keep);
  child.stderr?.on("data", keep);
  child.on("error", (error) => keep(Buffer.from(error.message)));
  const watchdog = watch(child.pid);
  const hasExited = () =>
    child.pid === undefined || child.exitCode !== null || child.signalCode !== null;
  return {
    pid: child.pid ?? 0,
    get exited() {
      return hasExited();
    },
    signal: (name) => void child.kill(name),
    output: () => output,
    async [Symbol.asyncDispose]() {
      if (!hasExited()) {
        const exit = once(child, "exit");
        child.kill("SIGKILL");
        await exit;
      }
      watchdog?.kill("SIGKILL");
    },
  };
}

/** Ends the server when this process is gone, for whatever reason: its end of the pipe then closes. */
function watch(pid: number | undefined): ChildProcess | null {
  if (pid === undefined) return null;
  const watchdog = spawn("sh", ["-c", `cat >/dev/null; kill -9 ${pid}`], {
    stdio: ["pipe", "ignore", "ignore"],
    detached: true,
  });
  watchdog.unref();
  watchdog.on("error", () => {});
  return watchdog;
}
