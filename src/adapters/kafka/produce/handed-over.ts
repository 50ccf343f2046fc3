interface Produce {
  readonly topicData: readonly {
    readonly partitions: readonly { readonly messages: readonly object[] }[];
  }[];
}

/** The first message for each partition in each request: those for one partition go together. */
const handedOver = new WeakSet<object>();

/** Call it with what a broker is about to be asked. */
export function markHandedOver({ topicData }: Produce): void {
  for (const { partitions } of topicData) {
    for (const { messages } of partitions)
      if (messages[0] !== undefined) handedOver.add(messages[0]);
  }
}

/** Whether the first message for its partition was in any request: if not, nothing for that partition was written. */
export function wasHandedOver(first: object): boolean {
  return handedOver.has(first);
}
