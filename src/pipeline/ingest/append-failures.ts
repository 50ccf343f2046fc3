import type { Clock } from "../../domain/clock.ts";
import { LogError } from "../../domain/log.ts";
import type { Logger } from "../../domain/logger.ts";

/** While the log is away thousands of appends a second may fail. */
const TELL_EVERY_MS = 5_000;

/** Tells why events are answered 503: one line at first, then one every five seconds with how many events it stands for. */
export function makeAppendFailures(ports: {
  readonly clock: Pick<Clock, "monotonic">;
  readonly logger: Logger;
}): (error: unknown, records: number) => void {
  let toldAtMs = Number.NEGATIVE_INFINITY;
  let events = 0;
  return (error, records) => {
    events += records;
    const nowMs = ports.clock.monotonic();
    if (nowMs - toldAtMs < TELL_EVERY_MS) return;
    const code = error instanceof LogError ? error.code : "log_failed";
    ports.logger.error({ code, err: error, events }, "log.append_failed");
    toldAtMs = nowMs;
    events = 0;
  };
}
