/** Returns a partition of a topic as a key, which also names it in messages. */
export function slotOf(topicName: string, partition: number): string {
  return `${topicName}/${partition}`;
}
