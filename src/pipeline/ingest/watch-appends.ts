import type { Clock } from "../../domain/clock.ts";
import { appendedDespite, LogError } from "../../domain/log.ts";
import type { Logger } from "../../domain/logger.ts";
import type { IngestMetrics } from "./ports.ts";

/** While the log is unavailable, thousands of appends a second may fail. */
const TELL_EVERY_MS = 5_000;

/**
 * Counts appends, and logs why events are answered 503: one line at first, then at most one every five seconds, with the number
 * of events it stands for.
 */
export function makeAppendWatch(ports: {
  readonly clock: Pick<Clock, "monotonic">;
  readonly logger: Logger;
  readonly metrics: Pick<IngestMetrics, "appended">;
}): (seconds: number, records: number, failure: Error | null) => void {
  let toldAtMs = Number.NEGATIVE_INFINITY;
  let events = 0;
  return (seconds, records, failure) => {
    if (failure === null) return ports.metrics.appended(seconds, records, null);
    const code = failure instanceof LogError ? failure.code : "log_failed";
    ports.metrics.appended(seconds, records, code);
    const missing = appendedDespite(failure)?.filter((position) => position === null);
    events += missing?.length ?? records;
    const nowMs = ports.clock.monotonic();
    if (nowMs - toldAtMs < TELL_EVERY_MS) return;
    ports.logger.error({ code, err: failure, events }, "log.append_failed");
    toldAtMs = nowMs;
    events = 0;
  };
}
