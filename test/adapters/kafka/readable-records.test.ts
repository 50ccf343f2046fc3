import type { Cluster } from "kafkajs";
import { expect, test } from "vitest";
import type { FetchedMessage } from "../../../src/adapters/kafka/consume/fetch-messages.ts";
import { readableRecords } from "../../../src/adapters/kafka/consume/readable-records.ts";

const PLACE = { topic: "limits", name: "limits", partition: 0 } as const;
const DAMAGED = 0x7f;

function messageOf(offset: number, base: number, lastOffsetDelta: number, more: object = {}) {
  return {
    attributes: 0,
    offset: String(offset),
    key: null,
    value: Buffer.from(`v${offset}`),
    timestamp: "1",
    batchContext: { firstOffset: String(base), lastOffsetDelta },
    ...more,
  } as unknown as FetchedMessage;
}

test("what is damaged is read from a copy whose last records were compacted away, without what a transaction left: it was asked for without end", async () => {
  const ofCopy = [
    [messageOf(0, 0, 9), messageOf(5, 0, 9, { isControlRecord: true }), messageOf(6, 0, 9)],
    [messageOf(10, 10, 0)],
  ];
  const fetched: number[] = [];
  const fetch = async (asked: {
    topics: readonly [{ partitions: readonly [{ fetchOffset: string }] }];
  }) => {
    const offset = Number(asked.topics[0].partitions[0].fetchOffset);
    fetched.push(offset);
    if (fetched.length > 100) throw new Error("asked again and again");
    return { responses: [{ partitions: [{ messages: ofCopy[offset < 10 ? 0 : 1]! }] }] };
  };
  const cluster = {
    findTopicPartitionMetadata: () => [{ partitionId: 0, leader: 1, isr: [1, 2] }],
    findBroker: async () => ({ fetch }),
  } as unknown as Cluster;
  const told: unknown[] = [];
  const losses = {
    lost: (records: object) => void told.push(["lost", records]),
    mended: ({ from, to }: { readonly from: number; readonly to: number }, nodeId: number) =>
      void told.push(["mended", from, to, nodeId]),
  };
  const mark = messageOf(10, 0, 10, { attributes: DAMAGED });
  const records = await readableRecords(cluster, PLACE, [mark], 0, losses);
  expect(records.map(({ offset }) => offset)).toEqual([0, 6, 10]);
  expect(fetched).toEqual([0, 10]);
  expect(told).toEqual([["mended", 0, 11, 2]]);
});
