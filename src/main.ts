import { isatty } from "node:tty";
import { keepCollectorAside } from "./app/garbage-collection.ts";
import { runProgram } from "./cli/program.ts";

/** How long output that nobody reads may delay the end of a program that failed or was told to stop. */
const FLUSH_MS = 2_000;
/** Under npm a Ctrl-C arrives twice, from the terminal and from npm: a second one within this time is the same. */
const SAME_SIGNAL_MS = 1_000;
/** The exit code that shells report for a program ended by SIGINT. */
const INTERRUPTED = 130;

/**
 * Runs the whole program: arguments and environment in, exit code out (0 done, 1 failed, 2 bad usage or configuration).
 * Only here does the code touch what the main process owns: its environment (except what `adapters/uws/load-uws.ts` sets),
 * streams, signals and garbage collector. Children are given theirs.
 */
export async function main(argv: readonly string[], env: NodeJS.ProcessEnv): Promise<number> {
  keepCollectorAside();
  const stop = new AbortController();
  const onSignal = (): void => stop.abort();
  const onInterrupt = endWhenRepeated(onSignal);
  process.on("SIGTERM", onSignal);
  process.on("SIGINT", onInterrupt);
  // Closing the terminal stops the program in order, as Ctrl-C does. Node drops `nohup`'s instruction to ignore SIGHUP,
  // so it is ignored here when no stream is a terminal, as under `nohup`.
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

/**
 * Stops in order on the first signal, which takes as long as the tries in flight; pressing Ctrl-C again ends the program at once.
 */
function endWhenRepeated(stop: () => void): () => void {
  let firstMs: number | null = null;
  return () => {
    const nowMs = performance.now();
    firstMs ??= nowMs;
    if (nowMs - firstMs >= SAME_SIGNAL_MS) process.exit(INTERRUPTED);
    stop();
  };
}

/** Stops the program in order, without a stack trace, when its output cannot be written. */
function watchOutput(
  stop: () => void,
  { isService }: { readonly isService: boolean },
): { readonly failure: () => Promise<Error | null> } {
  let failure: Error | null = null;
  process.stdout.on("error", (error: NodeJS.ErrnoException) => {
    // The reader of the output is gone (`relay keys list | head`), which is no failure. For a service it is
    // one, or it would not be restarted.
    if (error.code !== "EPIPE" || isService) failure ??= error;
    stop();
  });
  process.stderr.on("error", stop);
  return {
    failure: async () => {
      // By then, errors of earlier writes have been reported.
      await new Promise<void>((resolve) => process.stdout.write("", () => resolve()));
      return failure;
    },
  };
}
