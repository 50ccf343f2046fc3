import type { Broker, KafkaMessage } from "kafkajs";

interface FetchResponse {
  readonly responses: readonly {
    readonly partitions: readonly { readonly messages: readonly FetchedMessage[] }[];
  }[];
}

export type FetchedMessage = KafkaMessage & { readonly isControlRecord?: boolean };

const FETCH_BYTES = 1024 * 1024;
const FETCH_WAIT_MS = 50;

/** Asks one broker for what it has from an offset on; a record before it may come first. Nothing where it has nothing within 50 ms. */
export async function fetchMessages(
  broker: Broker,
  { name, partition }: { readonly name: string; readonly partition: number },
  offset: number,
): Promise<readonly FetchedMessage[]> {
  const { responses } = (await broker.fetch({
    maxWaitTime: FETCH_WAIT_MS,
    minBytes: 1,
    maxBytes: FETCH_BYTES,
    isolationLevel: 1,
    topics: [
      {
        topic: name,
        partitions: [{ partition, fetchOffset: String(offset), maxBytes: FETCH_BYTES }],
      },
    ],
  })) as FetchResponse;
  return responses[0]?.partitions[0]?.messages ?? [];
}
