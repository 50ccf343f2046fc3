import type { Clock } from "../../domain/clock.ts";
import { appendedDespite, LogError } from "../../domain/log.ts";
import type {
  DurableAppender,
  LogProducer,
  NewRecord,
  Position,
  Urgency,
} from "../../domain/log.ts";
import type { Logger } from "../../domain/logger.ts";

const MAX_BATCH_RECORDS = 512;
const MAX_BATCH_BYTES = 4 * 1_048_576;
const FLUSH_MS: Readonly<Record<Urgency, number>> = { now: 3, soon: 50 };
const FIRST_RETRY_MS = 100;
const LAST_RETRY_MS = 2_000;
const WARN_EVERY_MS = 5_000;

interface Waiting {
  readonly records: readonly NewRecord[];
  /** Where each of the records is; null while it is not known to be in the log. */
  readonly positions: (Position | null)[];
  readonly stillNeeded: () => boolean;
  readonly resolve: (positions: readonly Position[] | null) => void;
  readonly reject: (error: unknown) => void;
}

export interface DurableAppenderPorts {
  readonly log: LogProducer;
  readonly clock: Clock;
  readonly logger: Logger;
}

/**
 * Makes an appender that writes in micro-batches and keeps retrying while the log is unavailable. `soon` records go with `now`
 * ones, or wait 50 ms: a commit of their own would keep the ends of tries waiting for the disk. Records of one call go to the
 * log in one call, so that a log that writes calls whole makes an end and its follow-up durable together.
 */
export function makeDurableAppender(ports: DurableAppenderPorts): DurableAppender {
  let waiting: Readonly<Record<Urgency, Waiting[]>> = { now: [], soon: [] };
  let waitingBytes = 0;
  let cancelFlush: (() => void) | null = null;
  let flushAtMs = Number.POSITIVE_INFINITY;
  let warnedAtMs = Number.NEGATIVE_INFINITY;
  let failedCalls = 0;

  function append(
    records: readonly NewRecord[],
    stillNeeded: () => boolean,
    urgency: Urgency = "now",
  ): Promise<readonly Position[] | null> {
    return new Promise((resolve, reject) => {
      const positions = records.map(() => null);
      waiting[urgency].push({ records, positions, stillNeeded, resolve, reject });
      for (const record of records) waitingBytes += record.value.length;
      const calls = waiting.now.length + waiting.soon.length;
      if (calls >= MAX_BATCH_RECORDS || waitingBytes >= MAX_BATCH_BYTES) flush();
      else flushWithin(FLUSH_MS[urgency]);
    });
  }

  function flushWithin(waitMs: number): void {
    const atMs = ports.clock.monotonic() + waitMs;
    if (atMs >= flushAtMs) return;
    cancelFlush?.();
    flushAtMs = atMs;
    cancelFlush = ports.clock.schedule(waitMs, flush);
  }

  function flush(): void {
    cancelFlush?.();
    cancelFlush = null;
    flushAtMs = Number.POSITIVE_INFINITY;
    const { now, soon } = waiting;
    waiting = { now: [], soon: [] };
    waitingBytes = 0;
    // Two calls, which the log may make durable together: what is wanted now does not wait for megabytes of the rest.
    if (now.length > 0) void write(now, FIRST_RETRY_MS);
    if (soon.length > 0) void write(soon, FIRST_RETRY_MS);
  }

  async function write(calls: readonly Waiting[], retryMs: number): Promise<void> {
    const batch = calls.filter((call) => {
      const isNeeded = call.stillNeeded();
      if (!isNeeded) call.resolve(null);
      return isNeeded;
    });
    if (batch.length === 0) return;
    try {
      resolveAppended(batch, await ports.log.append(batch.flatMap(missingOf)));
    } catch (error) {
      onFailure(resolveAppended(batch, appendedDespite(error) ?? []), retryMs, error);
    }
  }

  /**
   * Notes where the missing records of a batch are, and resolves the calls that miss none any more: a partition that takes nothing must
   * not hold back the others, nor have what they took written again.
   * @returns the calls with missing records
   */
  function resolveAppended(
    batch: readonly Waiting[],
    appended: readonly (Position | null)[],
  ): readonly Waiting[] {
    const found = appended.values();
    return batch.filter(({ positions, resolve }) => {
      for (const [index, position] of positions.entries())
        positions[index] = position ?? found.next().value ?? null;
      const written = positions.filter((position) => position !== null);
      if (written.length < positions.length) return true;
      resolve(written);
      return false;
    });
  }

  function onFailure(batch: readonly Waiting[], retryMs: number, error: unknown): void {
    if (!(error instanceof LogError) || !error.retryable) {
      // One record that can never be written must not take its neighbours with it.
      if (batch.length === 1) batch[0]!.reject(error);
      else for (const call of batch) void write([call], retryMs);
      return;
    }
    warn(error, batch.length);
    ports.clock.schedule(retryMs, () => void write(batch, Math.min(LAST_RETRY_MS, retryMs * 2)));
  }

  /** Logs how many calls failed since the last line: each batch fails separately, and thousands of tries may be in flight. */
  function warn(error: LogError, calls: number): void {
    failedCalls += calls;
    const nowMs = ports.clock.monotonic();
    if (nowMs - warnedAtMs < WARN_EVERY_MS) return;
    ports.logger.warn({ code: error.code, err: error, calls: failedCalls }, "log.append_retried");
    warnedAtMs = nowMs;
    failedCalls = 0;
  }

  return { append };
}

function missingOf({ records, positions }: Waiting): readonly NewRecord[] {
  return records.filter((_, index) => positions[index] === null);
}
