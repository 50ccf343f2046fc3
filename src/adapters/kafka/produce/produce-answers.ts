import { LogError } from "../../../domain/log.ts";
import { partitionName } from "../partition-name.ts";
import { loadInternal } from "../guards/guard-class.ts";

export interface PartitionAnswer {
  readonly partition: number;
  readonly errorCode: number;
  readonly baseOffset?: string;
}
/** A broker's answer to one produce request. */
export interface ProduceAnswer {
  readonly topics: readonly { readonly partitions: readonly PartitionAnswer[] }[];
}

const { createErrorFromCode } = loadInternal("protocol/error.js") as {
  readonly createErrorFromCode: (code: number) => Error;
};

/** REQUEST_TIMED_OUT and NOT_ENOUGH_REPLICAS_AFTER_APPEND: the leader has it, and perhaps no other replica. */
const MAYBE_WRITTEN: ReadonlySet<number> = new Set([7, 20]);
/**
 * What a broker says of the partition, the topic or its records alone: those above, and MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE,
 * NOT_ENOUGH_REPLICAS, TOPIC_AUTHORIZATION_FAILED, INVALID_TIMESTAMP, POLICY_VIOLATION. What comes back with anything else (another
 * leader, a broker that shuts down) is to be sent again.
 */
const REFUSALS: ReadonlySet<number> = new Set([...MAYBE_WRITTEN, 10, 18, 19, 29, 32, 44]);

/** What somebody has to do about refusals that do not pass by themselves. */
const MENDS: ReadonlyMap<number, string> = new Map([
  [10, "raise its max.message.bytes"],
  [18, "raise its segment.bytes"],
  [19, "bring back brokers, or lower its min.insync.replicas"],
  [29, "this user needs the right Write for it"],
  [
    32,
    "keep the clocks of this machine and the brokers in step, or raise its message.timestamp.after.max.ms and message.timestamp.before.max.ms",
  ],
]);

/** Returns whether the records for this partition were taken or refused, so that they are not to be sent again. */
export function isFinal({ errorCode }: PartitionAnswer): boolean {
  return errorCode === 0 || REFUSALS.has(errorCode);
}

/** Returns whether nothing in it is final: all that was sent is to be sent again. */
export function isNoAnswer({ topics }: ProduceAnswer): boolean {
  return !topics.some(({ partitions }) => partitions.some(isFinal));
}

/** Returns why the records for this partition are not there, or not known to be. */
export function refusalOf(topicName: string, { partition, errorCode }: PartitionAnswer): LogError {
  const cause = createErrorFromCode(errorCode);
  const where = partitionName(topicName, partition);
  if (MAYBE_WRITTEN.has(errorCode))
    return new LogError("log_outcome_unknown", `${where} did not confirm the write`, { cause });
  const mend = MENDS.get(errorCode);
  const advice = mend === undefined ? "" : ` (${mend})`;
  return new LogError("log_unavailable", `${where} did not take the records${advice}`, { cause });
}
