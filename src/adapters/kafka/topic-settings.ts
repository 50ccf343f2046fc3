import { DELAY_TIERS } from "../../domain/delay-tier.ts";
import type { Topic } from "../../domain/log.ts";
import type { KafkaLogOptions } from "./kafka-options.ts";

const DAY_MS = 86_400_000;
/** How long a consumer may be down without losing anything. */
const WORK_RETENTION_MS = 7 * DAY_MS;
/** Record batches carry headers, keys and head fields besides the values. */
export const FRAMING_BYTES = 1024 * 1024;
/** A new owner reads all of `limits`, and the segment written to last is never compacted: by default, a week or 1 GB. */
const COMPACTED_SEGMENT_BYTES = 16 * 1024 * 1024;

/**
 * Returns the settings a topic must have. Work topics keep records for a week; `held` longer than any task may be held (the
 * stage ends them first, as `dead`); `limits` keeps the last state of every key.
 */
export function topicSettings(
  topic: Topic,
  replicationFactor: number,
  options: Pick<KafkaLogOptions, "maxRecordBytes" | "retentionMs">,
): Readonly<Record<string, string>> {
  const retention =
    topic === "limits"
      ? { "cleanup.policy": "compact", "segment.bytes": String(COMPACTED_SEGMENT_BYTES) }
      : {
          "cleanup.policy": "delete",
          "retention.bytes": "-1",
          "retention.ms": String(
            topic === "held" ? options.retentionMs + WORK_RETENTION_MS : WORK_RETENTION_MS,
          ),
        };
  return {
    ...retention,
    "min.insync.replicas": replicationFactor >= 3 ? "2" : "1",
    "unclean.leader.election.enable": "false",
    "max.message.bytes": String(maxBatchBytes(options.maxRecordBytes)),
    "compression.type": "producer",
    // A task is due by a process's clock: stamped by a broker whose clock is behind, it would go round in its delay topic without a pause.
    "message.timestamp.type": "CreateTime",
  };
}

/**
 * Returns how long records may have to wait in a topic even if all goes well: a delay tier's time, or until a task held there has
 * expired. A `held` that was made for a shorter retention keeps them for more than a week, and may go on with that.
 */
export function maxWaitMs(topic: Topic, { retentionMs }: KafkaLogOptions): number {
  if (topic === "held") return Math.min(retentionMs, WORK_RETENTION_MS);
  return DELAY_TIERS.find((tier) => tier.topic === topic)?.delayMs ?? 0;
}

/** Returns the largest record batch that the topics take. */
export function maxBatchBytes(maxRecordBytes: number): number {
  return maxRecordBytes + FRAMING_BYTES;
}
