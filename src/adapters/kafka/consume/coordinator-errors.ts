/** The group is being joined again: its members still are members. */
export const REBALANCING = "REBALANCE_IN_PROGRESS";
/** The generation is over: another member may own the partitions, or none. */
const FENCED: ReadonlySet<unknown> = new Set([
  "ILLEGAL_GENERATION",
  "UNKNOWN_MEMBER_ID",
  REBALANCING,
  "FENCED_INSTANCE_ID",
]);
/** The coordinator has moved, or its broker is gone. */
const MOVED: ReadonlySet<unknown> = new Set([
  "KafkaJSConnectionError",
  "KafkaJSConnectionClosedError",
  "NOT_COORDINATOR_FOR_GROUP",
  "GROUP_COORDINATOR_NOT_AVAILABLE",
]);

/** Returns the name of Kafka's error code with which a broker refused, as the client puts it into its errors; undefined for others. */
export function codeOfBroker(error: unknown): unknown {
  return (error as { readonly type?: unknown }).type;
}

export function isFenced(error: unknown): boolean {
  return FENCED.has(codeOfBroker(error));
}

export function isMoved(error: unknown): boolean {
  const { name } = error as { readonly name?: unknown };
  return MOVED.has(name) || MOVED.has(codeOfBroker(error));
}

/** Returns whether a topic was deleted, and with it what the group has committed for it. */
export function isTopicDeleted(error: unknown): boolean {
  return codeOfBroker(error) === "UNKNOWN_TOPIC_OR_PARTITION";
}
