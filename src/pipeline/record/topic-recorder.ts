import type { Clock } from "../../domain/clock.ts";
import { EventStoreError } from "../../domain/event-store.ts";
import type { LogRecord, OwnedPartition, Topic } from "../../domain/log.ts";
import type { Logger } from "../../domain/logger.ts";
import { BatchBuffer, type Batch, type Entry } from "./batch-buffer.ts";
import { decodePlan, encodePlan, insertToken } from "./batch-plan.ts";
import type { RecordMetrics } from "./record-metrics.ts";

/** An insert that finds this many rows goes at once. */
const FULL_ROWS = 10_000;
const MAX_ROWS = 50_000;
const MAX_BYTES = 32 * 1024 * 1024;
/** How long the first record waits for others: a little when it is quiet, up to a second under load. */
const QUIET_LINGER_MS = 100;
const BUSY_LINGER_MS = 1_000;
const BUSY_ROWS = 1_000;
/**
 * From the begin of one insert to the next, however few rows come: each costs the store a part of the table, its indexes and a merge.
 * Ten times as long as the last one took, up to `mostSpacingMs`, so that a store on a busy machine is left the most of its time.
 */
const LEAST_SPACING_MS = 300;
const SPACING_FACTOR = 10;
/** Above this, partitions wait before they hand over more. */
const HIGH_WATER_BYTES = 64 * 1024 * 1024;
const RETRY_FIRST_MS = 250;
const RETRY_MOST_MS = 5_000;
/** How long the partitions of an earlier owner's batch are waited for before it is given up. */
const PLAN_PATIENCE_MS = 10_000;
const PLAN_POLL_MS = 25;
/** An insert under way at the stop gets so long; one that is given up is repeated by the next owner. */
const STOP_GRACE_MS = 5_000;

export interface TopicRecorderOptions<Row> {
  readonly topic: Topic;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: RecordMetrics;
  /** Null for a record without a row. @throws {Error} on a foreign record */
  readonly decode: (record: LogRecord) => Row | null;
  /** What a row is known by, in every log. */
  readonly idOf: (row: Row) => string;
  /** How far apart inserts of few rows may be, ms; 300 at least. */
  readonly mostSpacingMs: number;
  readonly insert: (rows: readonly Row[], batchToken: string, signal: AbortSignal) => Promise<void>;
}

/** One topic's way into the store: collect, announce, insert, commit; one insert at a time. */
export interface TopicRecorder extends AsyncDisposable {
  assigned(partition: OwnedPartition): void;
  revoked(partition: OwnedPartition): Promise<void>;
  push(partition: OwnedPartition, records: readonly LogRecord[]): void | Promise<void>;
}

export function makeTopicRecorder<Row>(options: TopicRecorderOptions<Row>): TopicRecorder {
  const { topic, clock, logger, metrics } = options;
  const buffer = new BatchBuffer<Row>(topic);
  const waiting: (() => void)[] = [];
  const stopped = new AbortController();
  const givenUp = new AbortController();
  let running: Promise<void> | null = null;
  let inFlight: Batch<Row> | null = null;
  const onCommitted: (() => void)[] = [];
  let wake: () => void = () => undefined;
  let lingering = false;
  let busy = false;
  let spacedUntilMs = Number.NEGATIVE_INFINITY;
  let plansUntilMs = 0;

  /** Resolves after `delayMs`, when `wake` is called, or at the stop. */
  const pause = (delayMs: number): Promise<void> =>
    new Promise((resolve) => {
      const cancel = clock.schedule(delayMs, resolve);
      wake = () => {
        cancel();
        resolve();
      };
      if (stopped.signal.aborted) wake();
    });

  const nextBatch = (): Batch<Row> | null => {
    if (buffer.hasPlans()) {
      const planned = buffer.takePlanned();
      if (planned !== null) return planned;
      if (clock.monotonic() >= plansUntilMs) buffer.dropPlans();
    }
    return buffer.take({ maxRows: MAX_ROWS, maxBytes: MAX_BYTES });
  };

  const insertUntilDone = async (batch: Batch<Row>): Promise<boolean> => {
    const token = insertToken(batch.plan, batch.rows.map(options.idOf));
    let failedSinceMs: number | null = null;
    for (let delayMs = RETRY_FIRST_MS; ; delayMs = Math.min(delayMs * 2, RETRY_MOST_MS)) {
      if (stopped.signal.aborted) return false;
      const startedAt = clock.monotonic();
      try {
        if (batch.rows.length > 0) await options.insert(batch.rows, token, givenUp.signal);
        const endedAt = clock.monotonic();
        metrics.recorded(topic, batch.rows.length, (endedAt - startedAt) / 1_000);
        const spacingMs = Math.max(LEAST_SPACING_MS, (endedAt - startedAt) * SPACING_FACTOR);
        spacedUntilMs = startedAt + Math.min(options.mostSpacingMs, spacingMs);
        if (failedSinceMs !== null)
          logger.info({ topic, afterMs: Math.round(endedAt - failedSinceMs) }, "record.restored");
        return true;
      } catch (error) {
        failedSinceMs ??= clock.monotonic();
        metrics.failed(topic);
        const code = error instanceof EventStoreError ? error.code : "unexpected";
        logger.warn(
          { topic, code, err: error, rows: batch.rows.length, retryInMs: delayMs },
          "record.failed",
        );
        await pause(delayMs);
      }
    }
  };

  /** The partitions of the batch before are settled: their next owners may start. */
  const settle = (): void => {
    inFlight = null;
    for (const resolve of onCommitted.splice(0)) resolve();
  };

  /** Commits what is in the store together with what comes next; a lost commit only means a repeated batch. */
  const commit = async (done: Batch<Row> | null, next: Batch<Row> | null): Promise<void> => {
    const changes = new Map<OwnedPartition, { offset: number; metadata: string }>();
    const note = (batch: Batch<Row> | null, end: 1 | 2, metadata: string): void => {
      for (const owned of batch?.partitions ?? []) {
        const range = batch!.plan.ranges.find(([partition]) => partition === owned.partition);
        if (range !== undefined) changes.set(owned, { offset: range[end], metadata });
      }
    };
    note(done, 2, "");
    if (next !== null) note(next, 1, encodePlan(next.plan));
    await Promise.all(
      [...changes].map(([owned, change]) =>
        owned.commit([{ topic, ...change }]).catch((error: unknown) => {
          logger.warn({ topic, partition: owned.partition, err: error }, "record.commit_failed");
        }),
      ),
    );
    settle();
  };

  const run = async (): Promise<void> => {
    let done: Batch<Row> | null = null;
    for (;;) {
      let next: Batch<Row> | null = buffer.rows >= FULL_ROWS ? nextBatch() : null;
      if (next === null && done !== null) {
        await commit(done, null);
        done = null;
      }
      if (next === null) {
        if (buffer.rows === 0) break;
        const nowMs = clock.monotonic();
        const lateAt = busy
          ? nowMs + BUSY_LINGER_MS
          : Math.max(nowMs + QUIET_LINGER_MS, spacedUntilMs);
        lingering = true;
        while (buffer.rows < FULL_ROWS && !stopped.signal.aborted) {
          const leftMs = lateAt - clock.monotonic();
          if (leftMs <= 0) break;
          await pause(leftMs);
        }
        lingering = false;
        if (stopped.signal.aborted) break;
        next = nextBatch();
        if (next === null) {
          await pause(PLAN_POLL_MS);
          continue;
        }
      }
      busy = next.rows.length >= BUSY_ROWS;
      await commit(done, next);
      inFlight = next;
      done = (await insertUntilDone(next)) ? next : null;
      if (buffer.bytes < HIGH_WATER_BYTES) for (const resume of waiting.splice(0)) resume();
      if (stopped.signal.aborted) break;
    }
    await commit(done, null);
  };

  const kick = (): void => {
    if (stopped.signal.aborted) return;
    if (running === null) {
      running = run()
        .catch((error: unknown) => logger.error({ topic, err: error }, "record.topic_failed"))
        .finally(() => {
          running = null;
          settle();
          if (buffer.rows > 0) kick();
        });
    } else if (lingering && buffer.rows >= FULL_ROWS) wake();
  };

  const toEntry = (record: LogRecord): Entry<Row> => {
    const { offset, partition } = record;
    try {
      return { offset, row: options.decode(record), sizeBytes: record.value.length };
    } catch (error) {
      metrics.skipped(topic);
      logger.error({ topic, partition, offset, err: error }, "record.skipped");
      return { offset, row: null, sizeBytes: 0 };
    }
  };

  return {
    assigned(partition) {
      const plan = decodePlan(topic, partition.committed(topic)?.metadata ?? "");
      buffer.add(partition, plan);
      if (plan !== null) plansUntilMs = clock.monotonic() + PLAN_PATIENCE_MS;
    },
    async revoked(partition) {
      buffer.remove(partition);
      // An insert that holds this partition's rows is waited for: its commit is still welcome.
      if (running === null || inFlight?.partitions.includes(partition) !== true) return;
      await new Promise<void>((resolve) => onCommitted.push(resolve));
    },
    push(partition, records) {
      buffer.push(partition, records.map(toEntry));
      kick();
      if (buffer.bytes < HIGH_WATER_BYTES || stopped.signal.aborted) return;
      return new Promise<void>((resolve) => waiting.push(resolve));
    },
    async [Symbol.asyncDispose]() {
      stopped.abort();
      wake();
      for (const resume of waiting.splice(0)) resume();
      const cancel = clock.schedule(STOP_GRACE_MS, () => givenUp.abort());
      await running;
      cancel();
    },
  };
}
