import type { Topic } from "../../domain/log.ts";

export interface RecordMetrics {
  /** One insert that succeeded. */
  recorded(topic: Topic, rows: number, seconds: number): void;
  /** One insert that failed and will be repeated. */
  failed(topic: Topic): void;
  /** One record of the log that could not be read. */
  skipped(topic: Topic): void;
}
