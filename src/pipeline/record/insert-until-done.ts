import { pause, type Clock } from "../../domain/clock.ts";
import { EventStoreError } from "../../domain/event-store.ts";
import { makeFailureWatch } from "../../domain/failure-watch.ts";
import type { Topic } from "../../domain/log.ts";
import type { Logger } from "../../domain/logger.ts";
import { toError } from "../../domain/thrown.ts";
import type { Batch } from "./batch-buffer.ts";
import { insertToken } from "./batch-plan.ts";
import type { RecordMetrics } from "./record-metrics.ts";

const RETRY_FIRST_MS = 250;
const MAX_RETRY_MS = 5_000;

export interface InsertOptions<Row> {
  readonly topic: Topic;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: RecordMetrics;
  /** Returns a row's id, which is unique across logs. */
  readonly idOf: (row: Row) => string;
  readonly insert: (rows: readonly Row[], batchToken: string, signal: AbortSignal) => Promise<void>;
}

/** Monotonic, ms. */
export interface InsertTimes {
  readonly startedAtMs: number;
  readonly endedAtMs: number;
}

export interface InsertSignals {
  /** Ends the retries. */
  readonly stopped: AbortSignal;
  /** Breaks off the insert under way. */
  readonly givenUp: AbortSignal;
}

/**
 * Repeats the insert until the store has the batch. Returns the times of the one that succeeded, or null when stopped before: the
 * next owner reads the batch again.
 */
export async function insertUntilDone<Row>(
  options: InsertOptions<Row>,
  batch: Batch<Row>,
  { stopped, givenUp }: InsertSignals,
): Promise<InsertTimes | null> {
  const { topic, clock, logger, metrics } = options;
  const token = insertToken(batch.plan, batch.rows.map(options.idOf));
  let failedSinceMs: number | null = null;
  let delayMs = RETRY_FIRST_MS;
  const watch = makeFailureWatch({
    clock,
    failed: ({ err, times }) => {
      const code = err instanceof EventStoreError ? err.code : "unexpected";
      const rows = batch.rows.length;
      logger.warn({ topic, code, err, times, rows, retryInMs: delayMs }, "record.failed");
    },
    restored: (fields) => logger.info({ topic, ...fields }, "record.restored"),
  });
  for (; ; delayMs = Math.min(delayMs * 2, MAX_RETRY_MS)) {
    if (stopped.aborted) return null;
    const startedAtMs = clock.monotonic();
    try {
      if (batch.rows.length > 0) await options.insert(batch.rows, token, givenUp);
      const endedAtMs = clock.monotonic();
      metrics.recorded(topic, batch.rows.length, (endedAtMs - startedAtMs) / 1_000);
      if (failedSinceMs !== null) watch.onRestored(Math.round(endedAtMs - failedSinceMs));
      return { startedAtMs, endedAtMs };
    } catch (error) {
      if (givenUp.aborted) {
        logger.info({ topic, rows: batch.rows.length }, "record.given_up");
        return null;
      }
      failedSinceMs ??= startedAtMs;
      metrics.failed(topic);
      watch.onError(toError(error));
      await pause(clock, delayMs, stopped);
    }
  }
}
