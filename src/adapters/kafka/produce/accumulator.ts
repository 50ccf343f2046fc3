import { BatchQueue } from "../../../domain/batch-queue.ts";
import { countedBytes } from "../../../domain/counted-bytes.ts";
import { LogError, type Position, type Topic } from "../../../domain/log.ts";
import { WaitList } from "../../../domain/wait-list.ts";
import { AckPace } from "./ack-pace.ts";

/** A record whose partition is decided. */
export interface PlacedRecord {
  readonly topic: Topic;
  readonly partition: number;
  readonly key: string;
  readonly value: Uint8Array;
}

/** Where a record is, or why it is not there. */
export type Appended = Position | LogError;

export interface AccumulatorOptions {
  /** Writes one batch; `done` gives the result for each record, in order. `maybeSent` tells, at any time, whether bytes may have left. */
  readonly send: (records: readonly PlacedRecord[]) => {
    readonly done: Promise<readonly Appended[]>;
    readonly maybeSent: () => boolean;
  };
  readonly maxBatchBytes: number;
  readonly maxBatchRecords: number;
  /** How long a batch that is not full waits for company while others are in flight. */
  readonly lingerMs: number;
  readonly maxInFlight: number;
  /** Batches that are confirmed this late are in flight one at a time: see `AckPace`. */
  readonly slowAckMs: number;
  /** Limit for what waits and is in flight, which counts until the write has really ended. */
  readonly maxQueuedBytes: number;
  readonly appendTimeoutMs: number;
  readonly monotonic: () => number;
}

interface Call {
  readonly records: readonly PlacedRecord[];
  readonly sizeBytes: number;
  readonly queuedAtMs: number;
  /** Set when the call is in flight. */
  maybeSent: (() => boolean) | null;
  settled: boolean;
  readonly resolve: (appended: readonly Appended[]) => void;
  readonly reject: (error: Error) => void;
}

const SWEEP_MS = 100;
const RECORD_OVERHEAD_BYTES = 64;

/**
 * Collects appends into batches, since the client has no linger of its own. Bounded in bytes and in time: a call is
 * rejected at its deadline while its bytes stay counted until the client lets go of them.
 */
export class Accumulator {
  readonly #options: AccumulatorOptions;
  readonly #waiting: BatchQueue<Call>;
  readonly #inFlight = new Set<readonly Call[]>();
  readonly #pace: AckPace;
  #waitingBytes = 0;
  #waitingRecords = 0;
  #inFlightBytes = 0;
  #lingers = false;
  #turnEnds = false;
  #sweeper: NodeJS.Timeout | null = null;
  readonly #waitingForIdle = new WaitList();

  constructor(options: AccumulatorOptions) {
    this.#options = options;
    const { maxBatchBytes, maxBatchRecords, maxInFlight, slowAckMs } = options;
    this.#pace = new AckPace({ maxInFlight, slowFromMs: slowAckMs });
    this.#waiting = new BatchQueue({ maxBytes: maxBatchBytes, maxRecords: maxBatchRecords });
  }

  get queuedBytes(): number {
    return this.#waitingBytes + this.#inFlightBytes;
  }

  /** Appends the records of one call in one batch, so they must fit: see `chunk`. @throws {LogError} */
  append(records: readonly PlacedRecord[]): Promise<readonly Appended[]> {
    const { maxQueuedBytes } = this.#options;
    const wholeBytes = records.reduce((sum, record) => sum + sizeOf(record), 0);
    const sizeBytes = countedBytes(wholeBytes, maxQueuedBytes);
    if (this.queuedBytes + sizeBytes > maxQueuedBytes)
      return Promise.reject(
        new LogError("log_full", `${this.queuedBytes} bytes already wait for the log`),
      );
    return new Promise((resolve, reject) => {
      this.#waiting.add({
        records,
        sizeBytes,
        queuedAtMs: this.#options.monotonic(),
        maybeSent: null,
        settled: false,
        resolve,
        reject,
      });
      this.#waitingBytes += sizeBytes;
      this.#waitingRecords += records.length;
      this.#sweeper ??= setInterval(() => this.#sweep(), SWEEP_MS);
      this.#schedule();
    });
  }

  /** Resolves when nothing waits and nothing is in flight. */
  async drained(): Promise<void> {
    if (this.#waiting.size === 0 && this.#inFlight.size === 0) return;
    await this.#waitingForIdle.wait();
  }

  /** Rejects what has not been settled. */
  close(): void {
    const calls = [...this.#waiting.takeWhile(() => true), ...[...this.#inFlight].flat()];
    for (const call of calls) this.#fail(call, new LogError("log_closed", "the log is closed"));
    this.#waitingBytes = 0;
    this.#waitingRecords = 0;
    this.#settleIdle();
  }

  #schedule(): void {
    if (this.#waiting.size === 0 || !this.#hasRoom()) return;
    const isFull =
      this.#waitingBytes >= this.#options.maxBatchBytes ||
      this.#waitingRecords >= this.#options.maxBatchRecords;
    if (isFull) this.#flush();
    else if (this.#inFlight.size === 0) {
      // Nothing to share a round trip with: it leaves at the end of this turn of the loop.
      if (this.#turnEnds) return;
      this.#turnEnds = true;
      setImmediate(() => {
        this.#turnEnds = false;
        this.#flush();
      });
    } else if (!this.#lingers) {
      this.#lingers = true;
      setTimeout(() => {
        this.#lingers = false;
        this.#flush();
      }, this.#options.lingerMs);
    }
  }

  #flush(): void {
    if (!this.#hasRoom()) return;
    const calls = this.#take();
    if (calls.length === 0) return;
    const sizeBytes = calls.reduce((sum, call) => sum + call.sizeBytes, 0);
    this.#inFlightBytes += sizeBytes;
    this.#inFlight.add(calls);
    const { send, monotonic } = this.#options;
    const sentAtMs = monotonic();
    const { done, maybeSent } = send(calls.flatMap((call) => call.records));
    for (const call of calls) call.maybeSent = maybeSent;
    void this.#finish(calls, done).then((isConfirmed) => {
      if (isConfirmed && !this.#waiting.isLarge(calls[0]!))
        this.#pace.confirmed(monotonic() - sentAtMs);
      this.#inFlightBytes -= sizeBytes;
      this.#inFlight.delete(calls);
      this.#schedule();
      this.#settleIdle();
    });
    this.#schedule();
  }

  /** Settles the calls of a batch. @returns whether all of it is confirmed */
  async #finish(calls: readonly Call[], done: Promise<readonly Appended[]>): Promise<boolean> {
    try {
      const appended = await done;
      let next = 0;
      for (const call of calls) {
        const own = appended.slice(next, next + call.records.length);
        next += call.records.length;
        if (!call.settled) {
          call.settled = true;
          call.resolve(own);
        }
      }
      return !appended.some((one) => one instanceof LogError);
    } catch (error) {
      for (const call of calls) this.#fail(call, error as Error);
      return false;
    }
  }

  /** While one may be in flight, it may be so beside large ones: they take the last place away from nobody. */
  #hasRoom(): boolean {
    const { size } = this.#inFlight;
    const { mayBeInFlight } = this.#pace;
    if (size < mayBeInFlight) return true;
    return size < this.#options.maxInFlight && size - this.#largeInFlight() < mayBeInFlight;
  }

  /** Takes the calls of one batch. Those that fill one of their own leave a place in flight to others. */
  #take(): readonly Call[] {
    const mayBeLarge = this.#largeInFlight() < Math.max(1, this.#options.maxInFlight - 1);
    const batches = this.#pace.batchesInOne;
    return this.#noLongerWaiting(this.#waiting.take({ mayBeLarge, batches }));
  }

  #largeInFlight(): number {
    return [...this.#inFlight].filter(([first]) => this.#waiting.isLarge(first!)).length;
  }

  #noLongerWaiting(calls: readonly Call[]): readonly Call[] {
    for (const { sizeBytes, records } of calls) {
      this.#waitingBytes -= sizeBytes;
      this.#waitingRecords -= records.length;
    }
    return calls;
  }

  /** Rejects calls at their deadlines. They are queued in that order, so the expired ones stand in front. */
  #sweep(): void {
    const expiredBeforeMs = this.#options.monotonic() - this.#options.appendTimeoutMs;
    const expired = this.#waiting.takeWhile(({ queuedAtMs }) => queuedAtMs <= expiredBeforeMs);
    for (const call of this.#noLongerWaiting(expired))
      this.#fail(call, new LogError("log_unavailable", "the log does not answer; not written"));
    for (const calls of this.#inFlight) {
      for (const call of calls) {
        if (call.queuedAtMs > expiredBeforeMs || call.settled) continue;
        const code = call.maybeSent?.() === false ? "log_unavailable" : "log_outcome_unknown";
        this.#fail(call, new LogError(code, "the log did not confirm the write in time"));
      }
    }
    this.#settleIdle();
  }

  #fail(call: Call, error: Error): void {
    if (call.settled) return;
    call.settled = true;
    call.reject(error);
  }

  #settleIdle(): void {
    if (this.#waiting.size > 0 || this.#inFlight.size > 0) return;
    if (this.#sweeper !== null) clearInterval(this.#sweeper);
    this.#sweeper = null;
    this.#waitingForIdle.wakeAll();
  }
}

/** Splits records so that each part fits one batch, in order; a part holds at least one record. */
export function chunk(
  records: readonly PlacedRecord[],
  maxBytes: number,
): readonly (readonly PlacedRecord[])[] {
  const chunks: PlacedRecord[][] = [];
  let sizeBytes = 0;
  for (const record of records) {
    const recordBytes = sizeOf(record);
    const last = chunks.at(-1);
    if (last === undefined || sizeBytes + recordBytes > maxBytes) {
      chunks.push([record]);
      sizeBytes = recordBytes;
    } else {
      last.push(record);
      sizeBytes += recordBytes;
    }
  }
  return chunks;
}

function sizeOf(record: PlacedRecord): number {
  return record.value.byteLength + record.key.length + RECORD_OVERHEAD_BYTES;
}
