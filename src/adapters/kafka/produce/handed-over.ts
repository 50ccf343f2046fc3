interface Produce {
  readonly topicData: readonly {
    readonly partitions: readonly { readonly messages: readonly object[] }[];
  }[];
}

/** The first message for each partition in each request: all messages for one partition go together. */
const handedOver = new WeakSet<object>();

/** Marks what a broker is about to be asked. */
export function markHandedOver({ topicData }: Produce): void {
  for (const { partitions } of topicData) {
    for (const { messages } of partitions)
      if (messages[0] !== undefined) handedOver.add(messages[0]);
  }
}

/** Returns whether the first message for its partition was in any request; if not, nothing for that partition was written. */
export function wasHandedOver(first: object): boolean {
  return handedOver.has(first);
}
