import { afterEach, expect, test, vi } from "vitest";
import { TopicFlow } from "../../../src/adapters/kafka/consume/topic-flow.ts";
import type { LogRecord } from "../../../src/domain/log.ts";
import { collectGarbage } from "../../support/collect-garbage.ts";
import { until } from "../../support/wait-for.ts";

const rec = (offset: number, sizeBytes = 10): LogRecord => ({
  topic: "events",
  partition: 0,
  offset,
  key: "k",
  value: Buffer.alloc(sizeBytes),
  appendedAtMs: 0,
});

afterEach(() => {
  vi.useRealTimers();
});

function makeFlow(handOver: (records: readonly LogRecord[]) => void | Promise<void>) {
  const fetching: boolean[] = [];
  const errors: Error[] = [];
  const seeks: number[] = [];
  const gaps: string[] = [];
  const flow: TopicFlow = new TopicFlow(
    0,
    { maxBatchBytes: 25, maxQueuedBytes: 100 },
    {
      handOver,
      setFetching: (on) => fetching.push(on),
      seekBack: () => seeks.push(flow.expectedOffset),
      onGap: (from, to) => gaps.push(`${from} to ${to}`),
      onError: (error) => errors.push(error),
    },
  );
  flow.start();
  return { flow, fetching, errors, seeks, gaps };
}

test("records are handed over in order, in batches near the size asked for; a large one goes alone", async () => {
  const batches: number[][] = [];
  const { flow } = makeFlow((records) => void batches.push(records.map((r) => r.offset)));
  flow.push([rec(0), rec(1), rec(2), rec(3, 80), rec(4)], 5);
  await until(() => batches.flat().length === 5, "all are handed over");
  expect(batches).toEqual([[0, 1], [2], [3], [4]]);
  expect(flow.expectedOffset).toBe(5);
});

test("fetching stops when too much waits, and goes on when half of it is gone", async () => {
  let release = () => {};
  const { flow, fetching } = makeFlow(
    () =>
      new Promise<void>((resolve) => {
        release = resolve;
      }),
  );
  flow.push([rec(0, 60), rec(1, 60)], 2);
  expect(fetching).toEqual([true, false]);
  release();
  await until(() => {
    release();
    return fetching.length === 3;
  }, "fetching goes on");
  expect(fetching).toEqual([true, false, true]);
});

test("a hand-over that throws is told, and its records are fetched again", async () => {
  const offsets: number[] = [];
  let failures = 0;
  const { flow, errors, seeks } = makeFlow((records) => {
    if (failures++ === 0) throw new Error("not now");
    offsets.push(...records.map((r) => r.offset));
  });
  flow.push([rec(7), rec(8), rec(9)], 10);
  await until(() => seeks.length === 1, "it goes back");
  expect(seeks).toEqual([7]);
  flow.push([rec(7), rec(8), rec(9)], 10);
  await until(() => offsets.length === 3, "they come again");
  expect(offsets).toEqual([7, 8, 9]);
  expect(errors.map((error) => error.message)).toEqual(["not now"]);
});

test("a hand-over that fails again and again is tried once a second", async () => {
  vi.useFakeTimers();
  let handOvers = 0;
  const { flow, seeks } = makeFlow(() => {
    handOvers += 1;
    throw new Error("not now");
  });
  flow.push([rec(0)], 1);
  await vi.advanceTimersByTimeAsync(900);
  expect(handOvers).toBe(1);
  expect(seeks).toEqual([]);
  await vi.advanceTimersByTimeAsync(200);
  expect(seeks).toEqual([0]);
});

test("a hand-over that fails when the partition is another owner's is not fetched again", async () => {
  vi.useFakeTimers();
  const { flow, fetching, seeks } = makeFlow(() => Promise.reject(new Error("not now")));
  flow.push([rec(0)], 1);
  await vi.advanceTimersByTimeAsync(500);
  flow.end();
  await vi.advanceTimersByTimeAsync(2_000);
  expect(seeks).toEqual([]);
  expect(fetching).toEqual([true]);
});

test("a gap moves it on, and what was fetched already never comes again", () => {
  const { flow } = makeFlow(() => undefined);
  flow.moveTo(5);
  expect(flow.expectedOffset).toBe(5);
  flow.push([rec(5)], 6);
  flow.moveTo(2);
  expect(flow.expectedOffset).toBe(6);
});

test("what is handed over is not kept while its consumer waits: each large task of a delay tier stayed in memory for hours", async () => {
  const { flow } = makeFlow(() => new Promise(() => {}));
  const value = new WeakRef(pushOne(flow));
  await new Promise((resolve) => setImmediate(resolve));
  collectGarbage();
  expect(value.deref()).toBeUndefined();
});

/** Pushes a record that no variable of the test holds. */
function pushOne(flow: TopicFlow): Uint8Array {
  const record = rec(0, 1_000_000);
  flow.push([record], 1);
  return record.value;
}

test("after its end nothing is handed over any more", async () => {
  const offsets: number[] = [];
  const { flow } = makeFlow(async (records) => {
    offsets.push(...records.map((r) => r.offset));
    flow.end();
  });
  flow.push([rec(0, 25), rec(1, 25)], 2);
  flow.push([rec(2)], 3);
  await new Promise((resolve) => setImmediate(resolve));
  expect(offsets).toEqual([0]);
});

test("offsets without a record are told once each: not those that retention is known to have deleted, nor again when records are fetched again", async () => {
  let isRefusing = true;
  const { flow, gaps, seeks } = makeFlow(() => {
    if (isRefusing) throw new Error("not now");
  });
  flow.moveTo(3);
  flow.push([rec(3), rec(6), rec(7)], 8);
  await until(() => seeks.length === 1, "it goes back");
  isRefusing = false;
  flow.push([rec(3), rec(6), rec(7), rec(12)], 13);
  expect(gaps).toEqual(["4 to 6", "8 to 12"]);
});

test("regression: a consumer that crashed and takes no more orders is told of: the error ended the process", async () => {
  const errors: Error[] = [];
  let isGone = false;
  const flow = new TopicFlow(
    0,
    { maxBatchBytes: 25, maxQueuedBytes: 20 },
    {
      handOver: async () => {
        isGone = true;
      },
      setFetching: () => {
        if (isGone) throw new Error("Consumer group was not initialized");
      },
      seekBack: () => {},
      onGap: () => {},
      onError: (error) => errors.push(error),
    },
  );
  flow.start();
  flow.push([rec(0, 30)], 1);
  await until(() => errors.length > 0, "the error is told");
  expect(errors[0]?.message).toBe("Consumer group was not initialized");
});
