import { topicForDelay } from "../../../domain/delay-tier.ts";
import type { DeliveryTask } from "../../../domain/delivery-task.ts";
import type { NewRecord, OwnedPartition } from "../../../domain/log.ts";
import { encodeOutcome } from "../../log/outcome-codec.ts";
import { encodeTask } from "../../log/task-codec.ts";
import type { Conclusion } from "../try/conclude.ts";
import { limitKey } from "../limits/known-limits.ts";
import { encodeLimit } from "../limits/limits-codec.ts";
import type { LimitRecord } from "../limits/limits-codec.ts";

/** How a try ended, beside the record that it came from. */
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

/** What a limit has used, where the next owner of the partition reads it. */
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

/** A task in the delay tier that fits it. It comes back to the partition that has its ends, which sends it on where the log has grown. */
export function taskRecord(
  { partition }: OwnedPartition,
  task: DeliveryTask,
  nowMs: number,
): NewRecord {
  const value = encodeTask(task);
  const topic = topicForDelay(task.dueAtMs - nowMs, value.length);
  return { topic, key: task.event.endpointId, partition, value };
}

/** An owner's last word: nothing of it is underway any more. */
export function releasedRecord(
  { partition }: OwnedPartition,
  ownerId: string,
  atMs: number,
): NewRecord {
  const value = encodeOutcome({ kind: "released", ownerId, atMs });
  return { topic: "attempts", key: ownerId, partition, value };
}
