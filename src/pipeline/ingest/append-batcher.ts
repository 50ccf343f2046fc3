import type { Clock } from "../../domain/clock.ts";
import { appendedDespite } from "../../domain/log.ts";
import type { NewRecord, Position } from "../../domain/log.ts";
import { toError } from "../../domain/thrown.ts";

export interface AppendPorts {
  readonly append: (records: readonly NewRecord[]) => Promise<readonly Position[]>;
  readonly clock: Clock;
  /** Runs `flush` once this turn of the event loop has taken in all it had. */
  readonly defer: (flush: () => void) => void;
  /** Reports one append: how long it took, how many records shared it, and the log's error, null when all are durable. */
  readonly appended: (seconds: number, records: number, failure: Error | null) => void;
  /** Called with each record that is durable: the log no longer looks at it. */
  readonly done: (record: NewRecord) => void;
}

/** One that waits for its record to become durable. */
export interface Waiter {
  /** Called exactly once: true when durable, false when not within the deadline or not at all. */
  settle(durable: boolean): void;
  /** Called when the log is done with the record, durable or not, and its memory is free. Never before `settle`. */
  release(): void;
}

/**
 * Gathers the records of one turn of the event loop into one append: at load hundreds of requests share one call, one promise
 * and one fsync; an idle server adds no delay.
 */
export function makeAppendBatcher(
  ports: AppendPorts,
  deadlineMs: number,
): (record: NewRecord, waiter: Waiter) => void {
  let records: NewRecord[] = [];
  let waiters: Waiter[] = [];

  function flush(): void {
    const batch = records;
    const waiting = waiters;
    records = [];
    waiters = [];
    const startedAt = ports.clock.monotonic();
    let settled = false;
    function settleAll(isDurable: (index: number) => boolean): void {
      if (settled) return;
      settled = true;
      for (const [index, waiter] of waiting.entries()) waiter.settle(isDurable(index));
    }
    const cancelDeadline = ports.clock.schedule(deadlineMs, () => settleAll(() => false));
    function finish(failure: Error | null): void {
      cancelDeadline();
      ports.appended((ports.clock.monotonic() - startedAt) / 1_000, batch.length, failure);
      // A partition that accepts nothing must not cost the endpoints of the others their answers.
      const found = appendedDespite(failure);
      settleAll((index) => failure === null || (found?.[index] ?? null) !== null);
      for (const waiter of waiting) waiter.release();
      // After a failure something may still be on its way.
      if (failure === null) for (const record of batch) ports.done(record);
    }
    // A log that throws instead of rejecting must not end the process.
    (async () => ports.append(batch))().then(
      () => finish(null),
      (error: unknown) => finish(toError(error)),
    );
  }

  return (record, waiter) => {
    if (records.length === 0) ports.defer(flush);
    records.push(record);
    waiters.push(waiter);
  };
}
