import type { LogRecord } from "../../domain/log.ts";
import type { DeliveryPorts } from "./ports.ts";

/** Logs and counts a record that cannot be read and is skipped: what it held has no end. */
export function noteUnreadable(
  { logger, metrics }: Pick<DeliveryPorts, "logger" | "metrics">,
  { topic, offset }: LogRecord,
  error: unknown,
): void {
  logger.error({ topic, offset, err: error }, "log.record_unreadable");
  metrics.unreadable(topic);
}
