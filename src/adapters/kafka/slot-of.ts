/** A partition of a topic, as a key and as it is named to people. */
export function slotOf(topicName: string, partition: number): string {
  return `${topicName}/${partition}`;
}
