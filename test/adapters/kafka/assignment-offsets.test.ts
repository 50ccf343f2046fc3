import type { Cluster } from "kafkajs";
import { expect, test } from "vitest";
import { lookUpOffsets } from "../../../src/adapters/kafka/assignment-offsets.ts";
import type { GroupSession } from "../../../src/adapters/kafka/group-session.ts";

const topic = "relay.events";

/** Where records begin to flow in a partition that holds offsets from `earliest` up to before `latest`. */
async function startOf(committed: number | null, earliest: number, latest: number) {
  const fetchTopicsOffset: Cluster["fetchTopicsOffset"] = async (asked) =>
    asked.map(({ fromBeginning }) => ({
      topic,
      partitions: [{ partition: 3, offset: String(fromBeginning ? earliest : latest) }],
    }));
  const session = {
    cluster: { fetchTopicsOffset },
    committed: async () => () => (committed === null ? null : { offset: committed, metadata: "" }),
  } as unknown as GroupSession;
  const offsets = await lookUpOffsets(session, [{ topic, partitions: [3] }]);
  return offsets.start(topic, 3);
}

test.each([
  ["from what was committed", 7, 5, 10, 7],
  ["from the oldest record where retention has passed that", 2, 5, 10, 5],
  ["from the oldest record where nothing was committed", null, 5, 10, 5],
  ["from the end of a log that ends before it: one that was lost and made anew", 12, 0, 4, 4],
])("records flow %s", async (_, committed, earliest, latest, start) => {
  expect(await startOf(committed, earliest, latest)).toBe(start);
});
