/** Returns the name of a topic's partition, `topic/partition`: for messages, and as a key. */
export function partitionName(topicName: string, partition: number): string {
  return `${topicName}/${partition}`;
}
