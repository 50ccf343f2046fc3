import type { Cluster } from "kafkajs";
import { expect, test } from "vitest";
import { lookUpOffsets } from "../../../src/adapters/kafka/consume/assignment-offsets.ts";
import type { GroupSession } from "../../../src/adapters/kafka/consume/group-session.ts";

const topic = "relay.events";

/** Looks up a partition that holds offsets from `earliest` up to, but not including, `latest`. */
async function lookUp(committed: number | null, earliest: number, latest: number) {
  const fetchTopicsOffset: Cluster["fetchTopicsOffset"] = async (asked) =>
    asked.map(({ fromBeginning }) => ({
      topic,
      partitions: [{ partition: 3, offset: String(fromBeginning ? earliest : latest) }],
    }));
  const session = {
    cluster: { fetchTopicsOffset },
    committed: async () => () => (committed === null ? null : { offset: committed, metadata: "" }),
  } as unknown as GroupSession;
  return lookUpOffsets(session, [{ topic, partitions: [3] }]);
}

test.each([
  ["from what was committed", 7, 5, 10, 7],
  ["from the oldest record where retention has passed that", 2, 5, 10, 5],
  ["from the oldest record where nothing was committed", null, 5, 10, 5],
  ["from the end of a log that ends before it: one that was lost and made anew", 12, 0, 4, 4],
])("records flow %s", async (_, committed, earliest, latest, start) => {
  const offsets = await lookUp(committed, earliest, latest);
  expect(offsets.start(topic, 3)).toBe(start);
});

test("regression: in a log that was lost and made anew the group is at its end: its owner took new records for known ones until they were past what it had committed, and none of them was delivered", async () => {
  const offsets = await lookUp(12, 0, 4);
  expect(offsets.committed(topic, 3)).toEqual({ offset: 4, metadata: "" });
});

test.each([
  ["what lies between it and the oldest record left", 2, { from: 2, to: 5 }],
  ["nothing where that was committed", 5, null],
  ["nothing where nothing was committed, as at a first start", null, null],
  ["nothing where the log was lost and made anew", 12, null],
])(
  "regression: retention that passes what was committed loses %s: it was skipped without a word",
  async (_, committed, lost) => {
    expect((await lookUp(committed, 5, 10)).lost(topic, 3)).toEqual(lost);
  },
);

test("where retention has passed what was committed, the group is at the oldest record left: its owner commits no offset that would be told of again", async () => {
  const offsets = await lookUp(2, 5, 10);
  expect(offsets.committed(topic, 3)).toEqual({ offset: 5, metadata: "" });
});

test("what was committed is handed on as it is, or not at all", async () => {
  expect((await lookUp(7, 5, 10)).committed(topic, 3)).toEqual({ offset: 7, metadata: "" });
  expect((await lookUp(null, 5, 10)).committed(topic, 3)).toBeNull();
});

test("a partition whose leader did not answer is not known", async () => {
  const answered = await lookUp(7, 5, 10);
  expect(answered.isKnown(topic, 3)).toBe(true);
  expect(answered.isKnown(topic, 4)).toBe(false);
});
