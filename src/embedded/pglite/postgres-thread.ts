import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { UsageError } from "../../domain/errors.ts";
import type { Logger } from "../../domain/logger.ts";
import { threadModule } from "../../domain/thread-module.ts";
import type { CloseMessage, FromPostgresThread, PostgresThreadData } from "./protocol.ts";

/** Between the end of a thread that was not told to end and the start of the next. */
const RESTART_MS = 1_000;

/** Runs `postgres-worker.ts`, and starts it again whenever it ends by itself; connections to it are then made anew. */
export class PostgresThread implements AsyncDisposable {
  readonly #data: PostgresThreadData;
  readonly #logger: Logger;
  readonly #startThread: (data: PostgresThreadData) => Worker;
  #worker: Worker | null = null;
  #restart: NodeJS.Timeout | null = null;
  #closed = false;

  constructor(
    data: PostgresThreadData,
    logger: Logger,
    startThread: (data: PostgresThreadData) => Worker = startWorker,
  ) {
    this.#data = data;
    this.#logger = logger;
    this.#startThread = startThread;
  }

  /** Resolves once it serves. @throws {UsageError} when the database cannot be opened, or its engine is not installed */
  async start(): Promise<void> {
    const worker = this.#startThread(this.#data);
    this.#worker = worker;
    await new Promise<void>((resolve, reject) => {
      let failure = new Error("the thread of the database ended");
      worker.on("message", (message: FromPostgresThread) => {
        switch (message.kind) {
          case "serving":
            worker.on("exit", () => this.#ended());
            return resolve();
          case "failed":
            failure = new (message.isUsage ? UsageError : Error)(message.message);
            // What its engine leaves behind would keep it for many seconds, and some 200 MB with it, while others are started.
            void worker.terminate();
            return;
          case "log":
            return this.#logger[message.level](message.fields, message.message);
          default:
            return message satisfies never;
        }
      });
      worker.on("error", (error) => {
        this.#logger.error({ err: error }, "pglite.thread_failed");
        reject(error);
      });
      worker.once("exit", () => reject(failure));
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    if (this.#restart !== null) clearTimeout(this.#restart);
    const worker = this.#worker;
    if (worker === null) return;
    const exited = once(worker, "exit");
    worker.postMessage({ kind: "close" } satisfies CloseMessage);
    await exited;
  }

  #ended(): void {
    this.#worker = null;
    if (this.#closed) return;
    this.#logger.error({ restartInMs: RESTART_MS }, "pglite.thread_ended");
    this.#startLater();
  }

  #startLater(): void {
    this.#restart = setTimeout(() => {
      this.start().then(
        () => this.#logger.info({}, "pglite.thread_restarted"),
        (error: unknown) => {
          this.#worker = null;
          if (this.#closed) return;
          this.#logger.error({ err: error, restartInMs: RESTART_MS }, "pglite.restart_failed");
          this.#startLater();
        },
      );
    }, RESTART_MS);
  }
}

/** Runs `postgres-worker.ts` on a thread. */
export function startWorker(workerData: PostgresThreadData): Worker {
  const { file, options } = threadModule("postgres-worker", import.meta.url);
  return new Worker(file, { ...options, workerData });
}
