import type { LogRecord } from "../../../domain/log.ts";

export interface TopicFlowPorts {
  readonly handOver: (records: readonly LogRecord[]) => void | Promise<void>;
  /** Stops and restarts fetching of this partition. */
  readonly setFetching: (on: boolean) => void;
  /** Has the next fetch begin at `expectedOffset`, which has moved back. */
  readonly seekBack: () => void;
  /** Told once of offsets without a record, up to the one before `to`: compaction took them, or they went with a segment. */
  readonly onGap: (from: number, to: number) => void;
  readonly onError: (error: Error) => void;
}

export interface TopicFlowLimits {
  /** Most bytes in one hand-over; a larger record goes alone. */
  readonly maxBatchBytes: number;
  /** Fetching stops above this, and resumes at half of it. */
  readonly maxQueuedBytes: number;
}

const RETRY_MS = 1_000;
const DEFAULT_BATCH_BYTES = 512 * 1024;
const TOTAL_QUEUED_BYTES = 64 * 1024 * 1024;
const MAX_QUEUED_BYTES = 1024 * 1024;
const MIN_QUEUED_BYTES = 64 * 1024;

/** Returns what each of a consumer's flows may queue: they share 64 MB. */
export function limitsOf(
  flowCount: number,
  maxBatchBytes: number = DEFAULT_BATCH_BYTES,
): TopicFlowLimits {
  const share = Math.floor(TOTAL_QUEUED_BYTES / Math.max(1, flowCount));
  const maxQueuedBytes = Math.min(MAX_QUEUED_BYTES, Math.max(MIN_QUEUED_BYTES, share));
  return { maxBatchBytes, maxQueuedBytes };
}

/**
 * What was fetched of one topic and partition, and not handed over yet. Lets the fetch loop, which also sends the heartbeats,
 * return at once while the consumer takes its time.
 */
export class TopicFlow {
  readonly #ports: TopicFlowPorts;
  readonly #limits: TopicFlowLimits;
  #queue: LogRecord[] = [];
  #queuedBytes = 0;
  #expected: number;
  /** The offset after the last one ever fetched: it does not move back. */
  #next: number;
  #fetching = false;
  #draining = false;
  #ended = false;

  constructor(startOffset: number, limits: TopicFlowLimits, ports: TopicFlowPorts) {
    this.#expected = startOffset;
    this.#next = startOffset;
    this.#limits = limits;
    this.#ports = ports;
  }

  /** Where the next fetch must begin. */
  get expectedOffset(): number {
    return this.#expected;
  }

  /** Skips a gap that retention made. */
  moveTo(offset: number): void {
    this.#expected = Math.max(this.#expected, offset);
    this.#next = Math.max(this.#next, offset);
  }

  start(): void {
    if (this.#ended || this.#fetching) return;
    this.#fetching = true;
    this.#ports.setFetching(true);
  }

  /** Takes a fetched batch; `nextOffset` is where the following fetch begins. */
  push(records: readonly LogRecord[], nextOffset: number): void {
    if (this.#ended) return;
    this.#expected = nextOffset;
    for (const record of records) {
      if (record.offset > this.#next) this.#ports.onGap(this.#next, record.offset);
      this.#next = Math.max(this.#next, record.offset + 1);
      this.#queue.push(record);
      this.#queuedBytes += record.value.byteLength;
    }
    if (this.#fetching && this.#queuedBytes > this.#limits.maxQueuedBytes) {
      this.#fetching = false;
      this.#ports.setFetching(false);
    }
    this.#drain();
  }

  end(): void {
    this.#ended = true;
    this.#queue = [];
    this.#queuedBytes = 0;
  }

  /** Drains, and reports what is thrown: a crashed consumer refuses calls, and tells of its crash only once it has disconnected. */
  #drain(): void {
    if (this.#draining) return;
    this.#draining = true;
    this.#drainQueue().catch((error: unknown) => this.#ports.onError(error as Error));
  }

  async #drainQueue(): Promise<void> {
    try {
      while (!this.#ended && this.#queue.length > 0) {
        const { fromOffset, sizeBytes, handedOver } = this.#handOver();
        try {
          if (handedOver !== undefined) await handedOver;
        } catch (error) {
          this.#ports.onError(error as Error);
          await new Promise((resolve) => setTimeout(resolve, RETRY_MS).unref());
          if (this.#ended) return;
          this.#goBack(fromOffset);
          continue;
        }
        if (this.#ended) return;
        this.#queuedBytes -= sizeBytes;
        if (!this.#fetching && this.#queuedBytes <= this.#limits.maxQueuedBytes / 2) this.start();
      }
    } finally {
      this.#draining = false;
    }
  }

  /**
   * Hands over the first records and lets go of them: a consumer that takes hours (a delay tier) reads them again rather than keep
   * them. Their bytes count until it is done.
   */
  #handOver() {
    const { records, sizeBytes } = this.#head();
    this.#queue.splice(0, records.length);
    const fromOffset = records[0]!.offset;
    let handedOver: void | Promise<void>;
    try {
      handedOver = this.#ports.handOver(records);
    } catch (error) {
      handedOver = Promise.reject(error);
    }
    return { fromOffset, sizeBytes, handedOver };
  }

  /** Fetches again what was not handed over, so that it is not lost. */
  #goBack(offset: number): void {
    this.#queue = [];
    this.#queuedBytes = 0;
    this.#expected = offset;
    this.#ports.seekBack();
    this.start();
  }

  #head(): { records: LogRecord[]; sizeBytes: number } {
    let count = 0;
    let sizeBytes = 0;
    for (const record of this.#queue) {
      if (count > 0 && sizeBytes + record.value.byteLength > this.#limits.maxBatchBytes) break;
      count += 1;
      sizeBytes += record.value.byteLength;
    }
    return { records: this.#queue.slice(0, count), sizeBytes };
  }
}
