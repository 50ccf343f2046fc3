import { LogError } from "../../../domain/log.ts";
import { slotOf } from "../slot-of.ts";
import { loadInternal } from "../guards/guard-class.ts";

export interface PartitionAnswer {
  readonly partition: number;
  readonly errorCode: number;
  readonly baseOffset?: string;
}
/** What a broker answers to one produce request. */
export interface ProduceAnswer {
  readonly topics: readonly { readonly partitions: readonly PartitionAnswer[] }[];
}

const { createErrorFromCode } = loadInternal("protocol/error.js") as {
  readonly createErrorFromCode: (code: number) => Error;
};

/** REQUEST_TIMED_OUT and NOT_ENOUGH_REPLICAS_AFTER_APPEND: the leader has it, and perhaps nobody else. */
const MAYBE_WRITTEN: ReadonlySet<number> = new Set([7, 20]);
/**
 * What a broker says of the partition, the topic or its records alone: those, and MESSAGE_TOO_LARGE, RECORD_LIST_TOO_LARGE,
 * NOT_ENOUGH_REPLICAS, TOPIC_AUTHORIZATION_FAILED, INVALID_TIMESTAMP, POLICY_VIOLATION. The rest (another leader, a broker that ends)
 * is what the client itself asks again for.
 */
const REFUSALS: ReadonlySet<number> = new Set([...MAYBE_WRITTEN, 10, 18, 19, 29, 32, 44]);

/** Whether it holds nothing but records taken and such refusals. */
export function isAnswerForEach({ topics }: ProduceAnswer): boolean {
  return topics.every(({ partitions }) =>
    partitions.every(({ errorCode }) => errorCode === 0 || REFUSALS.has(errorCode)),
  );
}

/** Why the records for this partition are not there. */
export function refusalOf(topicName: string, { partition, errorCode }: PartitionAnswer): LogError {
  const cause = createErrorFromCode(errorCode);
  const where = slotOf(topicName, partition);
  return MAYBE_WRITTEN.has(errorCode)
    ? new LogError("log_outcome_unknown", `${where} did not confirm the write`, { cause })
    : new LogError("log_unavailable", `${where} did not take the records`, { cause });
}
