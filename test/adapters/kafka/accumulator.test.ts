import { describe, expect, test } from "vitest";
import {
  Accumulator,
  chunk,
  type AccumulatorOptions,
  type PlacedRecord,
} from "../../../src/adapters/kafka/produce/accumulator.ts";
import type { Position } from "../../../src/domain/log.ts";
import { until } from "../../support/wait-for.ts";

const rec = (text: string, partition = 0): PlacedRecord => ({
  topic: "events",
  partition,
  key: "k",
  value: Buffer.from(text),
});

/** Makes a log that answers on demand. */
function makeTarget(options: Partial<AccumulatorOptions> = {}) {
  const batches: {
    readonly records: readonly PlacedRecord[];
    readonly succeed: () => void;
    readonly fail: (error: Error) => void;
  }[] = [];
  const state = { nowMs: 0, maybeSent: true, offset: 0 };
  const accumulator = new Accumulator({
    send: (records) => {
      let succeed = () => {};
      let fail: (error: Error) => void = () => {};
      const done = new Promise<readonly Position[]>((resolve, reject) => {
        succeed = () =>
          resolve(
            records.map(({ partition }) => {
              state.offset += 1;
              return { partition, offset: state.offset - 1 };
            }),
          );
        fail = reject;
      });
      batches.push({ records, succeed, fail });
      return { done, maybeSent: () => state.maybeSent };
    },
    maxBatchBytes: 10_000,
    maxBatchRecords: 100,
    lingerMs: 5,
    maxInFlight: 2,
    slowAckMs: 300,
    maxQueuedBytes: 5_000,
    appendTimeoutMs: 3_000,
    monotonic: () => state.nowMs,
    ...options,
  });
  return { accumulator, batches, state };
}

type Target = ReturnType<typeof makeTarget>;

/** Has one batch confirmed so late that acks count as slow. */
async function slowDown({ accumulator, batches, state }: Target): Promise<void> {
  const slow = accumulator.append([rec("s")]);
  await until(() => batches.length === 1, "one is sent");
  state.nowMs += 300;
  batches[0]!.succeed();
  await slow;
  await accumulator.drained();
}

/** Long enough for all that may leave to have left: the timers of the accumulator fire before this one. */
const lingered = () => new Promise((resolve) => setTimeout(resolve, 100));

const sizesOf = ({ batches }: Target) => batches.map(({ records }) => records.length);

describe("accumulator", () => {
  test("regression: batches that are confirmed late are in flight one at a time, as large as several: a broker takes up a request only once it has answered the one before, so with its replicas far away each waited for two others, and a third was answered 503", async () => {
    const target = makeTarget({ maxInFlight: 3, maxBatchRecords: 2 });
    const { accumulator, batches, state } = target;
    await slowDown(target);
    const first = accumulator.append([rec("a")]);
    await until(() => batches.length === 2, "the first is sent");
    const rest = [1, 2, 3, 4, 5, 6, 7].map((n) => accumulator.append([rec(`${n}`)]));
    await lingered();
    expect(sizesOf(target)).toEqual([1, 1]);
    state.nowMs += 150;
    batches[1]!.succeed();
    await first;
    await until(() => batches.length === 3, "what has waited is sent");
    await lingered();
    expect(sizesOf(target)).toEqual([1, 1, 6]);
    state.nowMs += 99;
    batches[2]!.succeed();
    await until(() => batches.length === 4, "the last is sent");
    // Three of these are confirmed in time one after the other as well.
    const beside = accumulator.append([rec("b"), rec("c")]);
    await until(() => batches.length === 5, "another is sent beside it");
    expect(sizesOf(target)).toEqual([1, 1, 6, 1, 2]);
    for (const { succeed } of batches) succeed();
    await Promise.all([...rest, beside]);
  });

  test("a batch that was refused, or that took its time because it is large, says nothing of how fast acks come", async () => {
    const target = makeTarget({ maxBatchRecords: 1, maxQueuedBytes: 50_000 });
    const { accumulator, batches, state } = target;
    const refused = accumulator.append([rec("a")]);
    const large = accumulator.append([rec("A".repeat(20_000))]);
    await until(() => batches.length === 2, "both are sent");
    state.nowMs += 1_000;
    batches[0]!.fail(new Error("no"));
    batches[1]!.succeed();
    await Promise.allSettled([refused, large]);
    await accumulator.drained();
    const two = [accumulator.append([rec("b")]), accumulator.append([rec("c")])];
    await until(() => batches.length === 4, "two are in flight again");
    for (const { succeed } of batches) succeed();
    await Promise.all(two);
  });

  test("also while acks are slow, a webhook does not wait for large records", async () => {
    const target = makeTarget({ maxInFlight: 3, maxQueuedBytes: 500_000 });
    const { accumulator, batches } = target;
    await slowDown(target);
    const large = ["A", "B"].map((name) => accumulator.append([rec(name.repeat(20_000))]));
    await until(() => batches.length === 3, "both large ones are sent");
    const small = accumulator.append([rec("a")]);
    await until(() => batches.length === 4, "the small one is sent beside them");
    const next = accumulator.append([rec("b")]);
    await lingered();
    expect(batches).toHaveLength(4);
    for (const { succeed } of batches) succeed();
    await until(() => batches.length === 5, "the next one is sent");
    batches[4]!.succeed();
    await Promise.all([...large, small, next]);
  });

  test("regression: a webhook does not wait for large records: those of many hung receivers had all places in flight, and all that came after waited", async () => {
    const { accumulator, batches } = makeTarget({ maxQueuedBytes: 500_000 });
    const large = ["A", "B", "C"].map((name) => accumulator.append([rec(name.repeat(20_000))]));
    await until(() => batches.length === 1, "one large record is sent");
    const small = accumulator.append([rec("a")]);
    await until(() => batches.length === 2, "the small one is sent beside it");
    expect(batches[1]!.records.map(({ value }) => value.length)).toEqual([1]);
    batches[1]!.succeed();
    expect(await small).toHaveLength(1);
    for (const [index, sent] of [
      [0, 3],
      [2, 4],
    ] as const) {
      batches[index]!.succeed();
      await until(() => batches.length === sent, "the next large one is sent alone");
    }
    batches.at(-1)!.succeed();
    expect(await Promise.all(large)).toHaveLength(3);
  });

  test("appends of one turn of the loop share a batch, and each gets its own positions", async () => {
    const { accumulator, batches } = makeTarget();
    const appends = [[rec("a"), rec("b")], [rec("c", 1)], [rec("d")]].map((r) =>
      accumulator.append(r),
    );
    await until(() => batches.length === 1, "one batch is sent");
    expect(batches[0]?.records.map((r) => Buffer.from(r.value).toString())).toEqual([
      "a",
      "b",
      "c",
      "d",
    ]);
    batches[0]?.succeed();
    expect(await Promise.all(appends)).toEqual([
      [
        { partition: 0, offset: 0 },
        { partition: 0, offset: 1 },
      ],
      [{ partition: 1, offset: 2 }],
      [{ partition: 0, offset: 3 }],
    ]);
    await accumulator.drained();
  });

  test("no more batches than allowed are in flight, and a full one does not linger", async () => {
    const { accumulator, batches } = makeTarget({ maxBatchRecords: 2, lingerMs: 60_000 });
    const appends = Array.from({ length: 8 }, (_, n) => accumulator.append([rec(`${n}`)]));
    await until(() => batches.length === 2, "two are in flight");
    await new Promise((resolve) => setImmediate(resolve));
    expect(batches.length).toBe(2);
    for (let sent = 0; sent < 4; sent += 1) {
      await until(() => batches.length > sent, "the next batch is sent");
      batches[sent]?.succeed();
    }
    await Promise.all(appends);
  });

  test("regression: one that is larger than the bound is taken beside others, and others beside it: it was taken only when nothing was under way", async () => {
    const { accumulator, batches } = makeTarget();
    const first = accumulator.append([rec("x".repeat(2_000))]);
    const large = accumulator.append([rec("y".repeat(6_000))]);
    const last = accumulator.append([rec("z")]);
    const another = accumulator.append([rec("y".repeat(6_000))]);
    await expect(another).rejects.toMatchObject({ code: "log_full" });
    await until(() => batches.length === 1, "they are sent");
    batches[0]?.succeed();
    await Promise.all([first, large, last]);
  });

  test("beyond its bytes it refuses with log_full, and takes again when bytes are free", async () => {
    const { accumulator, batches } = makeTarget();
    const first = Promise.all(
      [2_400, 2_400].map((size) => accumulator.append([rec("x".repeat(size))])),
    );
    await expect(accumulator.append([rec("y".repeat(200))])).rejects.toMatchObject({
      code: "log_full",
      retryable: true,
    });
    await until(() => batches.length === 1, "the first is sent");
    batches[0]?.succeed();
    await first;
    await accumulator.drained();
    const again = accumulator.append([rec("y")]);
    await until(() => batches.length === 2, "the second is sent");
    batches[1]?.succeed();
    await again;
  });

  test("a single record larger than the bound is taken when nothing else waits", async () => {
    const { accumulator, batches } = makeTarget();
    const large = accumulator.append([rec("x".repeat(9_000))]);
    await until(() => batches.length === 1, "it is sent");
    batches[0]?.succeed();
    await large;
  });

  test("what was never sent is unavailable at its deadline; what may have been sent is unknown", async () => {
    const { accumulator, batches, state } = makeTarget({ maxInFlight: 1, maxBatchRecords: 1 });
    const inFlight = accumulator.append([rec("a")]);
    const waiting = accumulator.append([rec("b")]);
    const settled = Promise.allSettled([inFlight, waiting]);
    await until(() => batches.length === 1, "the first is sent");
    state.nowMs = 3_100;
    const [first, second] = await settled;
    expect(first).toMatchObject({ reason: { code: "log_outcome_unknown" } });
    expect(second).toMatchObject({ reason: { code: "log_unavailable" } });
    // The bytes in flight stay counted until the client lets go of them.
    expect(accumulator.queuedBytes).toBeGreaterThan(0);
    batches[0]?.succeed();
    await accumulator.drained();
    expect(accumulator.queuedBytes).toBe(0);
    expect(batches.length).toBe(1);
  });

  test("in flight without any open connection is unavailable, not unknown", async () => {
    const { accumulator, batches, state } = makeTarget();
    state.maybeSent = false;
    const append = accumulator.append([rec("a")]);
    const settled = Promise.allSettled([append]);
    await until(() => batches.length === 1, "it is sent");
    state.nowMs = 3_100;
    expect((await settled)[0]).toMatchObject({ reason: { code: "log_unavailable" } });
    batches[0]?.fail(new Error("late"));
    await accumulator.drained();
  });

  test("in flight each call has its own deadline: a later one goes on when an earlier one is given up", async () => {
    const { accumulator, batches, state } = makeTarget();
    const early = accumulator.append([rec("a")]);
    await until(() => batches.length === 1, "the first is sent");
    state.nowMs = 2_000;
    const late = accumulator.append([rec("b")]);
    await until(() => batches.length === 2, "the second is sent");
    state.nowMs = 3_500;
    await expect(early).rejects.toMatchObject({ code: "log_outcome_unknown" });
    batches[1]!.succeed();
    expect(await late).toEqual([{ partition: 0, offset: 0 }]);
    batches[0]!.succeed();
    await accumulator.drained();
  });

  test("a failed batch fails its own calls only", async () => {
    const { accumulator, batches } = makeTarget({ maxBatchRecords: 1 });
    const results = Promise.allSettled([
      accumulator.append([rec("a")]),
      accumulator.append([rec("b")]),
    ]);
    await until(() => batches.length === 2, "both are sent");
    batches[0]?.fail(new Error("no"));
    batches[1]?.succeed();
    expect((await results).map(({ status }) => status)).toEqual(["rejected", "fulfilled"]);
  });

  test("closing rejects what waits, and what is in flight, with log_closed", async () => {
    const { accumulator, batches } = makeTarget({ maxInFlight: 1 });
    const appends = [accumulator.append([rec("a")])];
    await until(() => batches.length === 1, "the first is sent");
    appends.push(accumulator.append([rec("b")]));
    accumulator.close();
    for (const append of appends)
      await expect(append).rejects.toMatchObject({ code: "log_closed", retryable: false });
  });

  test("while others are in flight, each later batch leaves after its linger", async () => {
    const { accumulator, batches } = makeTarget({ maxInFlight: 3 });
    const appends: Promise<unknown>[] = [];
    for (const count of [1, 2, 3]) {
      appends.push(accumulator.append([rec("a")]));
      await until(() => batches.length === count, `${count} batches are in flight`);
    }
    for (const { succeed } of batches) succeed();
    await Promise.all(appends);
  });

  test("a batch stays within its bytes; a call that is larger goes alone", async () => {
    const { accumulator, batches } = makeTarget({ maxBatchBytes: 1_000, maxInFlight: 9 });
    const sizes = [400, 400, 400, 2_000, 400];
    const appends = sizes.map((size) => accumulator.append([rec("a".repeat(size))]));
    const sent = () => batches.flatMap(({ records }) => records);
    await until(() => sent().length === sizes.length, "all are sent");
    for (const { succeed } of batches) succeed();
    await Promise.all(appends);
    expect(sent().map(({ value }) => value.byteLength)).toEqual(sizes);
    for (const { records } of batches)
      expect(
        records.length === 1 ||
          records.reduce((sum, { value }) => sum + value.byteLength, 0) <= 1_000,
      ).toBe(true);
    expect(batches.length).toBeLessThan(sizes.length);
  });

  test("large calls are cut into parts that fit, in order", () => {
    const records = ["a".repeat(600), "b".repeat(600), "c".repeat(5_000), "d"].map((text) =>
      rec(text),
    );
    expect(chunk(records, 1_000).map((part) => part.length)).toEqual([1, 1, 1, 1]);
    expect(chunk(records, 2_000).map((part) => part.length)).toEqual([2, 1, 1]);
    expect(chunk(records, 2_000).flat()).toEqual(records);
  });
});
