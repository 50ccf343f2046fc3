import { pause } from "../../domain/clock.ts";
import { makeFailureWatch, type FailureWatch } from "../../domain/failure-watch.ts";
import type { LogRecord, OwnedPartition } from "../../domain/log.ts";
import { toError } from "../../domain/thrown.ts";
import { WaitList } from "../../domain/wait-list.ts";
import { BatchBuffer, type Batch, type Entry } from "./batch-buffer.ts";
import { decodePlan, encodePlan } from "./batch-plan.ts";
import { insertUntilDone, type InsertOptions, type InsertTimes } from "./insert-until-done.ts";

/** An insert starts at once when this many rows wait. */
const FULL_ROWS = 10_000;
const MAX_ROWS = 50_000;
const MAX_BYTES = 32 * 1024 * 1024;
/** How long the first record waits for others: a little when it is quiet, up to a second under load. */
const QUIET_LINGER_MS = 100;
const BUSY_LINGER_MS = 1_000;
const BUSY_ROWS = 1_000;
/**
 * Least time from the start of one insert of few rows to the next: each costs the store a part of the table, its indexes and a
 * merge. The actual time is ten times as long as the last one took, up to `maxSpacingMs`, so that a store on a busy machine
 * keeps most of its time.
 */
const MIN_SPACING_MS = 300;
const SPACING_FACTOR = 10;
/** Above this, partitions must wait before they hand over more. */
const HIGH_WATER_BYTES = 64 * 1024 * 1024;
/** How long to wait for all partitions of an earlier owner's batch before giving it up. */
const PLAN_PATIENCE_MS = 10_000;
const PLAN_POLL_MS = 25;
/** How long an insert under way at the stop may take; one that is given up is repeated by the next owner. */
const STOP_GRACE_MS = 5_000;

export interface TopicRecorderOptions<Row> extends InsertOptions<Row> {
  /** Returns null for a record without a row. @throws {Error} on a foreign record */
  readonly decode: (record: LogRecord) => Row | null;
  /** Longest time between inserts of few rows, ms; 300 at least. */
  readonly maxSpacingMs: number;
  /** Called when the recorder has stopped by a fault of its own: another one must begin at what is committed. */
  readonly failed: (error: Error) => void;
}

/** One topic's path into the store: collect, announce, insert, commit; one insert at a time. */
export class TopicRecorder<Row> implements AsyncDisposable {
  readonly #options: TopicRecorderOptions<Row>;
  readonly #buffer: BatchBuffer<Row>;
  readonly #commits: FailureWatch;
  readonly #stopped = new AbortController();
  readonly #givenUp = new AbortController();
  /** Partitions that hand over more only once there is room. */
  readonly #waitingForRoom = new WaitList();
  /** Partitions that were revoked while their rows are being inserted. */
  readonly #waitingForCommit = new WaitList();
  #running: Promise<void> | null = null;
  #inFlight: Batch<Row> | null = null;
  /** Set while waiting for more records; aborting it ends the wait. */
  #lingering: AbortController | null = null;
  #isBusy = false;
  #spacedUntilMs = Number.NEGATIVE_INFINITY;
  #plansUntilMs = 0;

  constructor(options: TopicRecorderOptions<Row>) {
    this.#options = options;
    const { topic, clock, logger } = options;
    this.#buffer = new BatchBuffer(topic);
    this.#commits = makeFailureWatch({
      clock,
      failed: (fields) => logger.warn({ topic, ...fields }, "record.commit_failed"),
      restored: () => undefined,
    });
  }

  assigned(partition: OwnedPartition): void {
    const { topic, clock } = this.#options;
    const plan = decodePlan(topic, partition.committed(topic)?.metadata ?? "");
    this.#buffer.add(partition, plan);
    if (plan !== null) this.#plansUntilMs = clock.monotonic() + PLAN_PATIENCE_MS;
  }

  /** Waits for an insert that holds this partition's rows, whose commit is still possible. */
  async revoked(partition: OwnedPartition): Promise<void> {
    this.#buffer.remove(partition);
    if (this.#inFlight?.partitions.includes(partition) !== true) return;
    await this.#waitingForCommit.wait();
  }

  /** When it returns a promise, hand over more once that resolves. */
  push(partition: OwnedPartition, records: readonly LogRecord[]): void | Promise<void> {
    this.#buffer.push(
      partition,
      records.map((record) => this.#toEntry(record)),
    );
    this.#kick();
    if (this.#hasRoom || this.#isStopped) return;
    return this.#waitingForRoom.wait();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopped.abort();
    this.#lingering?.abort();
    this.#waitingForRoom.wakeAll();
    const cancel = this.#options.clock.schedule(STOP_GRACE_MS, () => this.#givenUp.abort());
    await this.#running;
    cancel();
  }

  get #isStopped(): boolean {
    return this.#stopped.signal.aborted;
  }

  get #hasRoom(): boolean {
    return this.#buffer.bytes < HIGH_WATER_BYTES;
  }

  get #isFull(): boolean {
    return this.#buffer.rows >= FULL_ROWS;
  }

  #kick(): void {
    if (this.#isStopped) return;
    if (this.#running !== null) {
      if (this.#isFull) this.#lingering?.abort();
      return;
    }
    this.#running = this.#run()
      .catch((error: unknown) => this.#fail(toError(error)))
      .finally(() => {
        this.#running = null;
        this.#settle();
        if (this.#buffer.rows > 0) this.#kick();
      });
  }

  /** Commits nothing more: what was taken for an insert would be passed over. */
  #fail(error: Error): void {
    this.#stopped.abort();
    this.#waitingForRoom.wakeAll();
    this.#options.failed(error);
  }

  /**
   * Inserts until nothing is left. A stored batch is committed together with the plan of the next, or at once when there is no
   * next one yet.
   */
  async #run(): Promise<void> {
    let done: Batch<Row> | null = null;
    for (;;) {
      let next = this.#isFull ? this.#nextBatch() : null;
      if (next === null) {
        await this.#commit(done, null);
        next = await this.#nextInTime();
        done = null;
      }
      if (next === null) return;
      this.#isBusy = next.rows.length >= BUSY_ROWS;
      await this.#commit(done, next);
      this.#inFlight = next;
      const times = await insertUntilDone(this.#options, next, {
        stopped: this.#stopped.signal,
        givenUp: this.#givenUp.signal,
      });
      if (times !== null) this.#spaceFrom(times);
      done = times === null ? null : next;
      if (this.#hasRoom) this.#waitingForRoom.wakeAll();
      if (this.#isStopped) return this.#commit(done, null);
    }
  }

  /** Returns the next batch once it is worth an insert; null when nothing is left, or at the stop. */
  async #nextInTime(): Promise<Batch<Row> | null> {
    const { clock } = this.#options;
    while (this.#buffer.rows > 0) {
      await this.#linger();
      if (this.#isStopped) return null;
      const next = this.#nextBatch();
      if (next !== null) return next;
      await pause(clock, PLAN_POLL_MS, this.#stopped.signal);
    }
    return null;
  }

  /** Waits until the linger time is over or enough rows have come. */
  async #linger(): Promise<void> {
    const { clock } = this.#options;
    const nowMs = clock.monotonic();
    const untilMs = this.#isBusy
      ? nowMs + BUSY_LINGER_MS
      : Math.max(nowMs + QUIET_LINGER_MS, this.#spacedUntilMs);
    if (this.#isFull || this.#isStopped) return;
    this.#lingering = new AbortController();
    await pause(clock, untilMs - nowMs, this.#lingering.signal);
    this.#lingering = null;
  }

  #nextBatch(): Batch<Row> | null {
    const buffer = this.#buffer;
    if (buffer.hasPlans()) {
      const planned = buffer.takePlanned();
      if (planned !== null) return planned;
      if (this.#options.clock.monotonic() >= this.#plansUntilMs) buffer.dropPlans();
    }
    return buffer.take({ maxRows: MAX_ROWS, maxBytes: MAX_BYTES });
  }

  #spaceFrom({ startedAtMs, endedAtMs }: InsertTimes): void {
    const spacingMs = Math.max(MIN_SPACING_MS, (endedAtMs - startedAtMs) * SPACING_FACTOR);
    this.#spacedUntilMs = startedAtMs + Math.min(this.#options.maxSpacingMs, spacingMs);
  }

  /** Commits what is stored, together with the plan of the next batch; a lost commit only means a repeated batch. */
  async #commit(done: Batch<Row> | null, next: Batch<Row> | null): Promise<void> {
    const { topic } = this.#options;
    const changes = new Map<OwnedPartition, { offset: number; metadata: string }>();
    const note = ({ partitions, plan }: Batch<Row>, end: "from" | "to", metadata: string): void => {
      for (const [index, owned] of partitions.entries())
        changes.set(owned, { offset: plan.ranges[index]![end], metadata });
    };
    if (done !== null) note(done, "to", "");
    if (next !== null) note(next, "from", encodePlan(next.plan));
    await Promise.all(
      [...changes].map(([owned, change]) =>
        owned
          .commit([{ topic, ...change }])
          .catch((error: unknown) => this.#commits.onError(toError(error))),
      ),
    );
    this.#settle();
  }

  /** Lets the next owners of the last batch's partitions start. */
  #settle(): void {
    this.#inFlight = null;
    this.#waitingForCommit.wakeAll();
  }

  #toEntry(record: LogRecord): Entry<Row> {
    const { topic, logger, metrics, decode } = this.#options;
    const { offset, partition } = record;
    try {
      return { offset, row: decode(record), sizeBytes: record.value.length };
    } catch (error) {
      metrics.skipped(topic);
      logger.error({ topic, partition, offset, err: error }, "record.skipped");
      return { offset, row: null, sizeBytes: 0 };
    }
  }
}
