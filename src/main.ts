import { isatty } from "node:tty";
import { keepCollectorAside } from "./app/garbage-collection.ts";
import { runProgram } from "./cli/program.ts";

/** Output that nobody takes does not keep a program that failed, or was told to end. */
const FLUSH_MS = 2_000;
/** A Ctrl-C under npm comes twice, from the terminal and from npm: what follows within this is the same one. */
const SAME_SIGNAL_MS = 1_000;
/** What shells say of a program that SIGINT ended. */
const INTERRUPTED = 130;

/**
 * The whole program: arguments and environment in, exit code out (0 done, 1 failed, 2 bad usage or configuration).
 * The only place that takes what the main process has: its environment (but for what `adapters/uws/load.ts` sets), streams, signals and
 * collector. Children are given theirs.
 */
export async function main(argv: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  keepCollectorAside();
  const stop = new AbortController();
  const onSignal = (): void => stop.abort();
  const onInterrupt = endWhenRepeated(onSignal);
  process.on("SIGTERM", onSignal);
  process.on("SIGINT", onInterrupt);
  // A terminal that closes ends the program in order, as Ctrl-C does. Node forgets that `nohup` told it to ignore this: what it
  // starts has no terminal.
  const onHangUp = [0, 1, 2].some((stream) => isatty(stream)) ? onSignal : (): void => undefined;
  process.on("SIGHUP", onHangUp);
  const output = watchOutput(onSignal, { isService: argv[0] === "start" });
  try {
    const exitCode = await runProgram({
      argv,
      env,
      signal: stop.signal,
      stdin: process.stdin,
      stdout: process.stdout,
      stderr: process.stderr,
    });
    if (exitCode !== 0 || stop.signal.aborted)
      setTimeout(() => process.exit(exitCode), FLUSH_MS).unref();
    const failure = await output.failure();
    if (failure === null) return exitCode;
    process.stderr.write(`relay: the output could not be written (${failure.message})\n`);
    return exitCode === 0 ? 1 : exitCode;
  } finally {
    process.off("SIGTERM", onSignal);
    process.off("SIGINT", onInterrupt);
    process.off("SIGHUP", onHangUp);
  }
}

/** The first one stops in order, which takes as long as tries in flight; whoever asks again at the keyboard does not wait for them. */
function endWhenRepeated(stop: () => void): () => void {
  let firstMs: number | null = null;
  return () => {
    const nowMs = performance.now();
    firstMs ??= nowMs;
    if (nowMs - firstMs >= SAME_SIGNAL_MS) process.exit(INTERRUPTED);
    stop();
  };
}

/** Output that cannot be written ends the program in order, without a stack. */
function watchOutput(
  stop: () => void,
  { isService }: { readonly isService: boolean },
): { readonly failure: () => Promise<Error | null> } {
  let failure: Error | null = null;
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    // Whoever read the output is gone (`relay keys list | head`): nothing failed. A service would not be started again.
    if (error.code !== "EPIPE" || isService) failure ??= error;
    stop();
  });
  process.stderr.on("error", stop);
  return {
    failure: async () => {
      // Errors of what was written before are told by then.
      await new Promise<void>((resolve) => process.stdout.write("", () => resolve()));
      return failure;
    },
  };
}
