import { once } from "node:events";
import { Worker } from "node:worker_threads";
import { LogError } from "../../../domain/log.ts";
import { RingQueue } from "../../../domain/ring-queue.ts";
import { threadModule } from "../../../domain/thread-module.ts";
import type {
  CommitError,
  CommitRequest,
  CommitWorkerData,
  FromCommitThread,
  ToCommitThread,
} from "./commit-protocol.ts";
import type { UnreadableCommits } from "./unreadable-commits.ts";

interface Waiting {
  readonly id: number;
  readonly worker: Worker;
  resolve(id: number): void;
  reject(error: Error): void;
}

export interface CommitThreadListener {
  /** A commit and all before it are in LMDB; called before or after the commit is answered. */
  applied(id: number): void;
  /** LMDB knows of nothing in this segment any more, and it will be overwritten once this returns. */
  emptied(segment: number): void;
  /** The thread has found less than an earlier one made durable. */
  unreadable(commits: UnreadableCommits): void;
}

/** Nothing of the commit was written. */
export class CommitRefused extends LogError {
  readonly isLockedUp: boolean;
  constructor({ code, message }: CommitError) {
    super("log_unavailable", `the log cannot be written: ${message} (is the disk full?)`);
    this.isLockedUp = code === "store_locked_up";
  }
}

/** Runs `commit-worker.ts`. If it dies, nothing is committed until `start` has made another: the files may hold more than was answered. */
export class CommitThread implements AsyncDisposable {
  readonly #data: CommitWorkerData;
  /** In the order of their ids, in which answers come. */
  #waiting = new RingQueue<Waiting>();
  #worker: Worker | null = null;
  #starting: Promise<void> | null = null;
  #closed = false;
  #nextId = 1;
  readonly #listener: CommitThreadListener;
  readonly #startThread: (data: CommitWorkerData) => Worker;

  constructor(
    data: CommitWorkerData,
    listener: CommitThreadListener,
    startThread: (data: CommitWorkerData) => Worker = startWorker,
  ) {
    this.#data = data;
    this.#listener = listener;
    this.#startThread = startThread;
  }

  async start(): Promise<void> {
    if (this.#closed) throw closed();
    this.#starting ??= this.#spawn().finally(() => {
      this.#starting = null;
    });
    await this.#starting;
  }

  /**
   * Resolves once the commit is durable, with a number that goes up with every commit.
   * @throws {LogError} `log_unavailable` when nothing was written, `log_outcome_unknown` when the thread died, `log_closed`
   */
  async commit(request: Omit<CommitRequest, "kind" | "id">): Promise<number> {
    const worker = this.#worker;
    if (this.#closed) throw closed();
    if (worker === null) throw outcomeUnknown(new Error("it has ended"));
    const id = this.#nextId++;
    return new Promise((resolve, reject) => {
      this.#waiting.push({ id, worker, resolve, reject });
      // Named one by one, as in all that every webhook passes: see src/README.md.
      const { blobs, rows, groups, removedBelow, removedBlobs, refs, starts } = request;
      send(worker, {
        kind: "commit",
        id,
        blobs,
        rows,
        groups,
        removedBelow,
        removedBlobs,
        refs,
        starts,
      });
    });
  }

  /** Ends the thread; `start` makes another, which reopens the files. */
  async stop(): Promise<void> {
    const worker = this.#worker;
    if (worker === null) return;
    this.#worker = null;
    const exited = once(worker, "exit");
    send(worker, { kind: "close" });
    await exited;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    await this.#starting?.catch(() => undefined);
    await this.stop();
  }

  async #spawn(): Promise<void> {
    const worker = this.#startThread(this.#data);
    const ready = new Promise<void>((resolve, reject) => {
      worker.on("message", (message: FromCommitThread) => {
        if (message.kind !== "ready") return this.#take(worker, message);
        if (message.unreadable !== null) this.#listener.unreadable(message.unreadable);
        resolve();
      });
      worker.once("error", reject);
    });
    // Rejects if the files cannot be opened.
    await ready.catch((cause: Error) => {
      throw new LogError("log_unavailable", `the log cannot be opened: ${cause.message}`, {
        cause,
      });
    });
    worker.on("error", (cause) => this.#died(worker, cause));
    worker.on("exit", () => this.#died(worker, new Error("the commit thread ended")));
    this.#worker = worker;
  }

  #take(worker: Worker, message: Exclude<FromCommitThread, { kind: "ready" }>): void {
    switch (message.kind) {
      case "applied":
        this.#listener.applied(message.id);
        return;
      case "emptied":
        this.#listener.emptied(message.segment);
        send(worker, { kind: "reuse", segment: message.segment });
        return;
      case "committed":
        this.#committed(message);
        return;
      default:
        message satisfies never;
    }
  }

  #committed({ id, error }: Extract<FromCommitThread, { kind: "committed" }>): void {
    if (this.#waiting.at(0)?.id !== id) return;
    const waiting = this.#waiting.shift()!;
    if (error === null) waiting.resolve(id);
    else waiting.reject(new CommitRefused(error));
  }

  /** May be called twice for one thread, and again when another has taken its place. */
  #died(worker: Worker, cause: Error): void {
    if (this.#worker === worker) this.#worker = null;
    const waiting = this.#waiting;
    this.#waiting = new RingQueue();
    for (const one of waiting) {
      if (one.worker === worker) one.reject(outcomeUnknown(cause));
      else this.#waiting.push(one);
    }
  }
}

function closed(): LogError {
  return new LogError("log_closed", "the log is closed");
}

function outcomeUnknown(cause: Error): LogError {
  const message = `the log's commit thread died: ${cause.message}`;
  return new LogError("log_outcome_unknown", message, { cause });
}

function send(worker: Worker, message: ToCommitThread): void {
  worker.postMessage(message);
}

function startWorker(workerData: CommitWorkerData): Worker {
  const { file, options } = threadModule("commit-worker", import.meta.url);
  return new Worker(file, { ...options, workerData });
}
