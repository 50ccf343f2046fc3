import { fileURLToPath } from "node:url";
import { Piscina } from "piscina";
import type { VerificationResult } from "../../domain/verification.ts";
import type { VerifyPool } from "../../pipeline/verify/pool-queue.ts";
import type { VerifyBatch } from "../../pipeline/verify/verify-batch.ts";

export interface VerifyPoolOptions {
  readonly threads: number;
  /** Called when a worker ends by itself; the pool replaces it. */
  readonly onWorkerError?: (error: Error) => void;
  /** Another worker file with an export `verifyBatch`; for tests. */
  readonly workerUrl?: URL;
}

export type RunningVerifyPool = VerifyPool & AsyncDisposable;

/**
 * Starts worker threads that verify batches; returns once each of them has loaded its code. A worker that dies fails
 * the batch it had and is replaced; one that loops is ended through the batch's signal.
 */
export async function startVerifyPool(options: VerifyPoolOptions): Promise<RunningVerifyPool> {
  const { threads } = options;
  const piscina = new Piscina<VerifyBatch, readonly VerificationResult[]>({
    filename: fileURLToPath(options.workerUrl ?? workerUrl()),
    name: "verifyBatch",
    minThreads: threads,
    maxThreads: threads,
    // A thread takes its next batch only when it has finished one, so that a loop holds up just one batch.
    concurrentTasksPerWorker: 1,
    maxQueue: Number.POSITIVE_INFINITY,
    recordTiming: false,
  });
  piscina.on("error", (error: Error) => options.onWorkerError?.(error));
  await warmUp(piscina, threads);
  return {
    threads,
    run: (batch, signal) => piscina.run(batch, { signal }),
    [Symbol.asyncDispose]: () => piscina.destroy(),
  };
}

/** Returns the file beside this one, compiled or not. */
function workerUrl(): URL {
  const name = import.meta.url.endsWith(".ts") ? "./verify-worker.ts" : "./verify-worker.js";
  return new URL(name, import.meta.url);
}

/** Runs one empty batch per thread, so that the first request does not wait for code to load. */
async function warmUp(
  piscina: Piscina<VerifyBatch, readonly VerificationResult[]>,
  threads: number,
): Promise<void> {
  const empty = (): VerifyBatch => ({
    json: '{"configs":[],"items":[]}',
    bodies: new SharedArrayBuffer(0),
  });
  await Promise.all(Array.from({ length: threads }, () => piscina.run(empty())));
}
