import type { Cluster } from "kafkajs";
import { expect, test } from "vitest";
import type { FetchedMessage } from "../../../src/adapters/kafka/consume/fetch-messages.ts";
import type { LossTeller } from "../../../src/adapters/kafka/consume/lost-records.ts";
import { readPartition } from "../../../src/adapters/kafka/consume/partition-reader.ts";

const NO_LOSSES: LossTeller = { lost: () => undefined, mended: () => undefined };

interface Batch {
  readonly base: number;
  readonly lastDelta: number;
  /** Those that compaction has left. */
  readonly left: readonly number[];
}

/**
 * A partition that answers each fetch with the batch that holds the offset, or with the next one, as a broker does where it has no room
 * for more. `shownTo` tells for each fetch, counted from 1, up to where it shows records.
 */
function clusterWith(
  batches: readonly Batch[],
  end: number,
  shownTo: (fetches: number) => number = () => end,
) {
  const fetched: number[] = [];
  const fetch = async (asked: {
    topics: readonly [{ partitions: readonly [{ fetchOffset: string }] }];
  }) => {
    const offset = Number(asked.topics[0].partitions[0].fetchOffset);
    fetched.push(offset);
    if (fetched.length > 100) throw new Error("asked again and again");
    const shown = shownTo(fetched.length);
    const batch = batches.find(
      ({ base, lastDelta }) => base + lastDelta >= offset && base + lastDelta < shown,
    );
    const messages = (batch?.left ?? []).map((delta) => ({
      offset: String(batch!.base + delta),
      key: null,
      value: Buffer.from(`v${batch!.base + delta}`),
      timestamp: "1",
      batchContext: { firstOffset: String(batch!.base), lastOffsetDelta: batch!.lastDelta },
    })) as unknown as FetchedMessage[];
    return { responses: [{ partitions: [{ messages, lastStableOffset: String(shown) }] }] };
  };
  const cluster = {
    findLeaderForPartitions: () => ({ "1": [0] }),
    findBroker: async () => ({ fetch }),
    fetchTopicsOffset: async ([asked]: { fromBeginning: boolean }[]) => [
      { topic: "limits", partitions: [{ partition: 0, offset: asked!.fromBeginning ? 0 : end }] },
    ],
  } as unknown as Cluster;
  return { cluster, fetched };
}

async function valuesIn(cluster: Cluster): Promise<readonly string[]> {
  const values: string[] = [];
  const place = { topic: "limits", name: "limits", partition: 0 } as const;
  for await (const records of readPartition(cluster, place, 0, NO_LOSSES))
    values.push(...records.map(({ value }) => Buffer.from(value).toString()));
  return values;
}

test("regression: a batch whose last records were compacted away is read once, and what is behind it comes next: it was asked for without end", async () => {
  const batches = [
    { base: 0, lastDelta: 9, left: [0, 5] },
    { base: 10, lastDelta: 4, left: [0, 1] },
    { base: 15, lastDelta: 0, left: [0] },
  ];
  const { cluster, fetched } = clusterWith(batches, 16);
  expect(await valuesIn(cluster)).toEqual(["v0", "v5", "v10", "v11", "v15"]);
  expect(fetched).toEqual([0, 10, 15]);
});

test("regression: what a new leader does not show yet is waited for, and is an error where it takes too long: the rest counted as compacted away, and its new owner began without it", async () => {
  const batches = [
    { base: 0, lastDelta: 0, left: [0] },
    { base: 1, lastDelta: 0, left: [0] },
  ];
  const late = clusterWith(batches, 2, (fetches) => (fetches < 30 ? 1 : 2));
  expect(await valuesIn(late.cluster)).toEqual(["v0", "v1"]);
  const never = clusterWith(batches, 2, () => 1);
  await expect(valuesIn(never.cluster)).rejects.toMatchObject({
    code: "log_unavailable",
    message: "the leader of limits/0 does not show all of it",
  });
});

test("an end that was compacted away is found with one fetch", async () => {
  const { cluster, fetched } = clusterWith([{ base: 0, lastDelta: 0, left: [0] }], 9);
  expect(await valuesIn(cluster)).toEqual(["v0"]);
  expect(fetched).toEqual([0, 1]);
});
