import type { Topic } from "../../../domain/log.ts";
import type { KafkaLogOptions } from "../kafka-options.ts";

/** Records that retention has deleted before their group had read them. */
export interface LostRecords {
  readonly topic: Topic;
  readonly partition: number;
  /** Offset of the first one. */
  readonly from: number;
  /** The oldest offset left. */
  readonly to: number;
}

export function tellOfLostRecords(
  { logger, metrics }: Pick<KafkaLogOptions, "logger" | "metrics">,
  group: string,
  { topic, partition, from, to }: LostRecords,
): void {
  const count = to - from;
  metrics?.lost(topic, count);
  logger.error({ group, topic, partition, from, to, count }, "log.records_lost");
}
