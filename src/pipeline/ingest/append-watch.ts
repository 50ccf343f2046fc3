import type { Clock } from "../../domain/clock.ts";
import { appendedDespite, LogError } from "../../domain/log.ts";
import type { Logger } from "../../domain/logger.ts";
import type { IngestMetrics } from "./ports.ts";

/**
 * While the log is unavailable, thousands of appends a second may fail. It counts as back once none has failed for as long: with
 * only some partitions away, every other append succeeds.
 */
const TELL_EVERY_MS = 5_000;

/**
 * Counts appends, and logs why events are answered 503: one line at first, then at most one every five seconds, with the number
 * of events it stands for. A last line says how long that took, and stands for the events that no line told of.
 */
export function makeAppendWatch(ports: {
  readonly clock: Pick<Clock, "monotonic">;
  readonly logger: Logger;
  readonly metrics: Pick<IngestMetrics, "appended">;
}): (seconds: number, records: number, failure: Error | null) => void {
  let toldAtMs = Number.NEGATIVE_INFINITY;
  let events = 0;
  let failedSinceMs: number | null = null;
  let worksSinceMs: number | null = null;

  function tellRestored(): void {
    if (failedSinceMs === null) return;
    const nowMs = ports.clock.monotonic();
    worksSinceMs ??= nowMs;
    if (nowMs - worksSinceMs < TELL_EVERY_MS) return;
    const afterMs = Math.round(worksSinceMs - failedSinceMs);
    ports.logger.info({ afterMs, events }, "log.append_restored");
    failedSinceMs = null;
    toldAtMs = Number.NEGATIVE_INFINITY;
    events = 0;
  }

  return (seconds, records, failure) => {
    if (failure === null) {
      ports.metrics.appended(seconds, records, null);
      return tellRestored();
    }
    const code = failure instanceof LogError ? failure.code : "log_failed";
    ports.metrics.appended(seconds, records, code);
    const missing = appendedDespite(failure)?.filter((position) => position === null);
    events += missing?.length ?? records;
    const nowMs = ports.clock.monotonic();
    failedSinceMs ??= nowMs - seconds * 1_000;
    worksSinceMs = null;
    if (nowMs - toldAtMs < TELL_EVERY_MS) return;
    ports.logger.error({ code, err: failure, events }, "log.append_failed");
    toldAtMs = nowMs;
    events = 0;
  };
}
