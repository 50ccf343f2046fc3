import type { LogError, Topic } from "../../domain/log.ts";

export interface LmdbLogMetrics {
  /** One append became durable: records, seconds from the call. */
  appended(records: number, seconds: number): void;
  /** One group commit became durable. */
  committed(sizeBytes: number): void;
  refused(code: LogError["code"]): void;
  trimmed(regions: number): void;
  /** Records that are damaged on the disk. */
  lost(topic: Topic, records: number): void;
}

export const NO_METRICS: LmdbLogMetrics = {
  appended: () => {},
  committed: () => {},
  refused: () => {},
  trimmed: () => {},
  lost: () => {},
};
