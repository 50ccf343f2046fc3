import type { Topic } from "../../domain/log.ts";

export interface RecordMetrics {
  /** Counts an insert that succeeded. */
  recorded(topic: Topic, rows: number, seconds: number): void;
  /** Counts an insert that failed and will be repeated. */
  failed(topic: Topic): void;
  /** Counts a record of the log that could not be read. */
  skipped(topic: Topic): void;
}
