import { topicForDelay } from "../../../domain/delay-tier.ts";
import type { DeliveryTask } from "../../../domain/delivery-task.ts";
import type { NewRecord, OwnedPartition } from "../../../domain/log.ts";
import { encodeOutcome } from "../../log/outcome-codec.ts";
import { encodeTask } from "../../log/task-codec.ts";
import type { Conclusion } from "../try/conclude.ts";
import { limitKey } from "../limits/known-limits.ts";
import { encodeLimit } from "../limits/limits-codec.ts";
import type { LimitRecord } from "../limits/limits-codec.ts";

/** Returns the record of how a try ended, in the partition that its task came from. */
export function endRecord(
  { partition }: OwnedPartition,
  { attempt, followUp }: Conclusion,
): NewRecord {
  return {
    topic: "attempts",
    key: attempt.endpointId,
    partition,
    value: encodeOutcome({ kind: "attempt", attempt, followUp }),
  };
}

/** Returns the record of what a limit has used, in the partition where the next owner reads it. */
export function limitRecord(
  { partition }: OwnedPartition,
  record: LimitRecord,
  endpointId: string,
): NewRecord {
  return {
    topic: "limits",
    key: limitKey(endpointId, record.destinationId),
    partition,
    value: encodeLimit(record),
  };
}

/**
 * Returns the record of a task in the delay tier that fits it. The task comes back to the partition that has its ends, whose
 * owner sends it on if the log has grown.
 */
export function taskRecord(
  { partition }: OwnedPartition,
  task: DeliveryTask,
  nowMs: number,
): NewRecord {
  const value = encodeTask(task);
  const topic = topicForDelay(task.dueAtMs - nowMs, value.length);
  return { topic, key: task.event.endpointId, partition, value };
}

/** Returns an owner's last word: nothing of it is underway any more. */
export function releasedRecord(
  { partition }: OwnedPartition,
  ownerId: string,
  atMs: number,
): NewRecord {
  const value = encodeOutcome({ kind: "released", ownerId, atMs });
  return { topic: "attempts", key: ownerId, partition, value };
}
