import type { Broker, KafkaMessage } from "kafkajs";

interface FetchResponse {
  readonly responses: readonly {
    readonly partitions: readonly {
      readonly messages: readonly FetchedMessage[];
      readonly lastStableOffset: string;
    }[];
  }[];
}

/** What a broker has of a partition from an offset on. */
export interface Fetched {
  readonly messages: readonly FetchedMessage[];
  /** The offset behind the last that it shows as of now; 0 where it did not answer for the partition, as while it throttles. */
  readonly shownTo: number;
}

/** A message with what the client's own typings leave out. */
export type FetchedMessage = KafkaMessage & {
  readonly isControlRecord?: boolean;
  /** Of its record batch; absent in the formats of before Kafka 0.11. */
  readonly batchContext?: { readonly firstOffset: string; readonly lastOffsetDelta: number };
};

const FETCH_BYTES = 1024 * 1024;
const FETCH_WAIT_MS = 50;

/** Asks one broker for what it has from an offset on; a record before it may come first. Nothing where it has nothing within 50 ms. */
export async function fetchMessages(
  broker: Broker,
  { name, partition }: { readonly name: string; readonly partition: number },
  offset: number,
): Promise<Fetched> {
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
  const answer = responses[0]?.partitions[0];
  return { messages: answer?.messages ?? [], shownTo: Number(answer?.lastStableOffset ?? 0) };
}

/** Returns the offset behind the message's batch, whose last records compaction may have removed: asked for, they bring the batch again. */
export function endOf({ offset, batchContext }: FetchedMessage): number {
  if (batchContext === undefined) return Number(offset) + 1;
  return Number(batchContext.firstOffset) + batchContext.lastOffsetDelta + 1;
}
