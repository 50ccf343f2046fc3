import type { Clock } from "../../domain/clock.ts";
import { RingQueue } from "../../domain/ring-queue.ts";
import type {
  Verdict,
  VerificationRequest,
  VerificationResult,
} from "../../domain/verification.ts";
import { makeBodySlabs } from "./body-slabs.ts";
import type { BodySlabs } from "./body-slabs.ts";
import { packBatch } from "./verify-batch.ts";
import type { VerifyBatch } from "./verify-batch.ts";
import type { VerifyFailure, VerifyMetrics } from "./verify-metrics.ts";

/** Threads that verify batches. */
export interface VerifyPool {
  readonly threads: number;
  /** Rejects when the worker dies or `signal` aborts; an aborted worker is ended and replaced. */
  run(batch: VerifyBatch, signal: AbortSignal): Promise<readonly VerificationResult[]>;
}

export interface PoolQueueLimits {
  /** Together with `maxQueuedBytes`, bounds all endpoints as a whole; a single one gets half of each. */
  readonly maxQueued: number;
  readonly maxQueuedBytes: number;
  readonly maxBatch: number;
  readonly maxBatchBytes: number;
  /** A batch that takes longer is aborted: its worker is taken to loop. */
  readonly runMs: number;
  /** A request that has waited longer is given up when its turn comes. */
  readonly waitMs: number;
}

export interface PoolQueueOptions {
  readonly pool: VerifyPool;
  readonly metrics: Pick<VerifyMetrics, "unavailable" | "batchSent">;
  readonly clock: Pick<Clock, "monotonic" | "schedule">;
  readonly limits: PoolQueueLimits;
  /** Batches in flight per thread; with two, one is verified while the next is handed over. */
  readonly batchesPerThread: number;
  /** Called when a batch is lost for any reason but its time limit. */
  readonly onError: ((error: unknown) => void) | undefined;
  /** Called when `queued` and `queuedBytes` may have changed, at most once in a turn of the event loop and once a batch. */
  readonly onChange: () => void;
}

interface Waiting {
  readonly request: VerificationRequest;
  readonly sinceMs: number;
  readonly settle: (verdict: Verdict) => void;
}

/** The waiting requests of one endpoint, which is known by its configuration. */
interface Share {
  readonly waiting: RingQueue<Waiting>;
  bytes: number;
}

/**
 * Gathers the requests of one loop turn into batches. While all threads are busy the next batch grows, so that the cost of
 * crossing to a thread falls as the load rises. A request leaves after at most `waitMs + 2 · runMs`.
 * Each endpoint may queue as much as is still free (Choudhury and Hahne, 1998), and endpoints take turns: a flood at one, which
 * needs no secret, leaves room and time for the others.
 */
export class PoolQueue implements AsyncDisposable {
  readonly #options: PoolQueueOptions;
  readonly #slabs: BodySlabs;
  readonly #shares = new WeakMap<object, Share>();
  /** Endpoints with waiting requests, in the order of their turns. */
  readonly #turns = new RingQueue<Share>();
  #queued = 0;
  #queuedBytes = 0;
  #isTurnScheduled = false;
  #isStopped = false;
  readonly #running = new Set<Promise<void>>();

  constructor(options: PoolQueueOptions) {
    this.#options = options;
    this.#slabs = makeBodySlabs(options.pool.threads * options.batchesPerThread);
  }

  /** Requests that wait for a worker. */
  get queued(): number {
    return this.#queued;
  }

  /** Size of their bodies together. */
  get queuedBytes(): number {
    return this.#queuedBytes;
  }

  verify(request: VerificationRequest): Promise<Verdict> {
    const { limits, clock } = this.#options;
    if (this.#isStopped) return this.#giveUp("stopped");
    const sizeBytes = request.body.byteLength;
    const share = this.#shareOf(request.config);
    const hasRoom =
      share.waiting.size < limits.maxQueued - this.#queued &&
      share.bytes + sizeBytes <= limits.maxQueuedBytes - this.#queuedBytes;
    if (!hasRoom) return this.#giveUp("queue_full");
    if (share.waiting.size === 0) this.#turns.push(share);
    share.bytes += sizeBytes;
    this.#queued += 1;
    this.#queuedBytes += sizeBytes;
    return new Promise((resolve) => {
      share.waiting.push({ request, sinceMs: clock.monotonic(), settle: resolve });
      this.#scheduleTurn();
    });
  }

  #shareOf(config: object): Share {
    let share = this.#shares.get(config);
    if (share === undefined)
      this.#shares.set(config, (share = { waiting: new RingQueue(), bytes: 0 }));
    return share;
  }

  /** Answers all waiting requests with "unavailable", and resolves when no batch is in flight any more. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#isStopped = true;
    for (let item = this.#takeNext(); item !== null; item = this.#takeNext())
      this.#settleLost(item, "stopped");
    this.#options.onChange();
    await Promise.all(this.#running);
  }

  #giveUp(cause: VerifyFailure): Promise<"unavailable"> {
    this.#options.metrics.unavailable(cause);
    return Promise.resolve("unavailable");
  }

  #settleLost(item: Waiting, cause: VerifyFailure): void {
    this.#options.metrics.unavailable(cause);
    item.settle("unavailable");
  }

  #scheduleTurn(): void {
    if (this.#isTurnScheduled) return;
    this.#isTurnScheduled = true;
    setImmediate(() => {
      this.#isTurnScheduled = false;
      this.#dispatch();
    });
  }

  #dispatch(): void {
    const { pool, batchesPerThread } = this.#options;
    let freeBatches = pool.threads * batchesPerThread - this.#running.size;
    while (freeBatches > 0 && this.#queued > 0) {
      const batch = this.#takeBatch(freeBatches);
      if (batch.length > 0) this.#start(batch);
      freeBatches -= 1;
    }
    this.#options.onChange();
  }

  /** Takes one free thread's equal share of the waiting requests, within the batch's bounds. */
  #takeBatch(freeBatches: number): readonly Waiting[] {
    const { limits, clock, pool } = this.#options;
    const freeThreads = Math.min(freeBatches, pool.threads);
    const maxRequests = Math.min(limits.maxBatch, Math.ceil(this.#queued / freeThreads));
    const earliestMs = clock.monotonic() - limits.waitMs;
    const batch: Waiting[] = [];
    let batchBytes = 0;
    while (batch.length < maxRequests) {
      const sizeBytes = this.#turns.at(0)?.waiting.at(0)?.request.body.byteLength ?? 0;
      if (batch.length > 0 && batchBytes + sizeBytes > limits.maxBatchBytes) break;
      const item = this.#takeNext();
      if (item === null) break;
      if (item.sinceMs < earliestMs) {
        this.#settleLost(item, "too_late");
        continue;
      }
      batch.push(item);
      batchBytes += sizeBytes;
    }
    return batch;
  }

  /** Takes the oldest request of the endpoint whose turn it is; the other endpoints then come first. */
  #takeNext(): Waiting | null {
    const share = this.#turns.shift();
    const item = share?.waiting.shift();
    if (share === undefined || item === undefined) return null;
    if (share.waiting.size > 0) this.#turns.push(share);
    const sizeBytes = item.request.body.byteLength;
    share.bytes -= sizeBytes;
    this.#queued -= 1;
    this.#queuedBytes -= sizeBytes;
    return item;
  }

  #start(batch: readonly Waiting[]): void {
    const running: Promise<void> = this.#run(batch).finally(() => {
      this.#running.delete(running);
      if (this.#queued > 0) this.#dispatch();
    });
    this.#running.add(running);
  }

  async #run(batch: readonly Waiting[]): Promise<void> {
    const { pool, metrics, limits, clock, onError } = this.#options;
    metrics.batchSent(batch.length);
    const controller = new AbortController();
    const cancel = clock.schedule(limits.runMs, () => controller.abort());
    try {
      const requests = batch.map(({ request }) => request);
      const packed = packBatch(requests, (sizeBytes) => this.#slabs.take(sizeBytes));
      const results = await pool.run(packed, controller.signal);
      this.#slabs.giveBack(packed.bodies);
      for (const [index, item] of batch.entries()) item.settle(results[index] ?? "unavailable");
    } catch (error) {
      if (!controller.signal.aborted) onError?.(error);
      for (const item of batch) this.#settleLost(item, "worker_lost");
    } finally {
      cancel();
    }
  }
}
