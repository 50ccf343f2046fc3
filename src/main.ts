import { keepCollectorAside } from "./app/garbage-collection.ts";
import { runProgram } from "./cli/program.ts";

/**
 * The whole program: arguments and environment in, exit code out (0 done, 1 failed, 2 bad usage or configuration).
 * The only place that touches the process: its environment, its streams, its signals and its collector.
 */
export async function main(argv: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  // uWebSockets.js reads this when its native module is loaded; larger than the 16 KiB of headers that are accepted.
  process.env["UWS_HTTP_MAX_HEADERS_SIZE"] ??= String(24 * 1024);
  keepCollectorAside();
  const stop = new AbortController();
  const onSignal = (): void => stop.abort();
  process.on("SIGTERM", onSignal);
  process.on("SIGINT", onSignal);
  // Whoever read the output is gone (`relay start | head`): stop in order, without a stack.
  process.stdout.on("error", onSignal);
  process.stderr.on("error", onSignal);
  try {
    return await runProgram({
      argv,
      env,
      signal: stop.signal,
      stdin: process.stdin,
      stdout: process.stdout,
      stderr: process.stderr,
    });
  } finally {
    process.off("SIGTERM", onSignal);
    process.off("SIGINT", onSignal);
  }
}
