import type { LogRecord } from "../../../domain/log.ts";
import { readBatch } from "../streams/read-batch.ts";
import type { RunQueue } from "../run-queue.ts";
import type { CommitStore } from "../store.ts";
import type { StreamState } from "../streams/stream-state.ts";

export interface PumpOptions {
  readonly stream: StreamState;
  readonly store: CommitStore;
  readonly queue: RunQueue;
  readonly fromOffset: number;
  readonly maxBatchBytes: number;
  readonly hand: (records: readonly LogRecord[]) => void | Promise<void>;
  readonly failed: (cause: unknown) => void;
}

/** Hands the records of one stream to one consumer, batch by batch, as they come. */
export class Pump {
  readonly #options: PumpOptions;
  readonly #stopListening: () => void;
  readonly #step = () => this.#run();
  #nextOffset: number;
  #busy = false;
  #queued = false;
  #stopped = false;

  constructor(options: PumpOptions) {
    this.#options = options;
    this.#nextOffset = options.fromOffset;
    this.#stopListening = options.stream.listen(() => this.#kick());
    this.#kick();
  }

  stop(): void {
    this.#stopped = true;
    this.#stopListening();
  }

  #kick(): void {
    if (this.#queued || this.#busy || this.#stopped) return;
    if (this.#nextOffset >= this.#options.stream.endOffset) return;
    this.#queued = true;
    this.#options.queue.add(this.#step);
  }

  #run(): void {
    this.#queued = false;
    if (this.#stopped) return;
    const { store, stream, maxBatchBytes, hand, failed } = this.#options;
    try {
      const batch = readBatch(store, stream, this.#nextOffset, maxBatchBytes);
      this.#nextOffset = batch.next;
      const handed = batch.records.length === 0 ? undefined : hand(batch.records);
      if (handed === undefined) {
        this.#kick();
        return;
      }
      this.#busy = true;
      handed.then(
        () => {
          this.#busy = false;
          this.#kick();
        },
        (cause: unknown) => failed(cause),
      );
    } catch (cause) {
      failed(cause);
    }
  }
}
