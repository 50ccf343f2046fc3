import { describe, expect, it } from "vitest";
import { BatchQueue } from "../../src/domain/batch-queue.ts";

const MB = 1_048_576;

interface Job {
  readonly name: string;
  readonly sizeBytes: number;
  readonly records: readonly string[];
}

const LIMITS = { maxBytes: 3.75 * MB, maxRecords: 100 };

function queueOf(...jobs: readonly (readonly [name: string, mb: number])[]): BatchQueue<Job> {
  const queue = new BatchQueue<Job>(LIMITS);
  for (const [name, mb] of jobs) queue.add({ name, sizeBytes: mb * MB, records: [name] });
  return queue;
}

const taken = (queue: BatchQueue<Job>): string =>
  queue
    .take()
    .map(({ name }) => name)
    .join(" ");

describe("a queue of batches", () => {
  it("gives out all that fits one batch, in the order in which it came", () => {
    const queue = queueOf(["a", 1], ["b", 0], ["c", 1]);
    expect(taken(queue)).toBe("a b c");
    expect([queue.size, taken(queue)]).toEqual([0, ""]);
  });

  it("takes along what still fits behind a job that does not", () => {
    const queue = queueOf(["a", 3], ["b", 2], ["c", 0.1], ["d", 2], ["e", 0]);
    expect([taken(queue), taken(queue)]).toEqual(["a c e", "b"]);
    expect([taken(queue), queue.size]).toEqual(["d", 0]);
  });

  it("regression: a webhook waits for one large record, not for all that are before it: beside those of twenty hung receivers it took their commits of 10 MB each", () => {
    const queue = queueOf(["A", 10], ["B", 10], ["C", 10], ["a", 0.01]);
    expect(taken(queue)).toBe("a");
    queue.add({ name: "b", sizeBytes: 100, records: ["b"] });
    expect([taken(queue), taken(queue), taken(queue)]).toEqual(["A", "b", "B"]);
    expect(taken(queue)).toBe("C");
  });

  it("lets others go before a large record once only", () => {
    const queue = queueOf(["A", 10]);
    const order = Array.from({ length: 4 }, (_, at) => {
      queue.add({ name: `a${at}`, sizeBytes: MB, records: ["a"] });
      return taken(queue);
    });
    expect(order).toEqual(
      ["a0", "A", "a1 a2", "a3"].map((names) => expect.stringContaining(names)),
    );
    expect(queue.size).toBe(0);
  });

  it("lets others go before the next large record as well", () => {
    const queue = queueOf(["A", 10], ["B", 10], ["a", 1]);
    expect([taken(queue), taken(queue)]).toEqual(["a", "A"]);
    queue.add({ name: "b", sizeBytes: MB, records: ["b"] });
    expect([taken(queue), taken(queue)]).toEqual(["b", "B"]);
  });

  it("counts records as well", () => {
    const queue = new BatchQueue<Job>(LIMITS);
    for (const [name, count] of [
      ["a", 60],
      ["b", 60],
      ["c", 40],
    ] as const)
      queue.add({ name, sizeBytes: 1, records: Array.from({ length: count }, () => name) });
    expect([taken(queue), taken(queue)]).toEqual(["a c", "b"]);
  });

  it("holds large ones back that may not go now, and lets all others go", () => {
    const queue = queueOf(["A", 10], ["a", 1], ["B", 10], ["b", 1]);
    const others = () => queue.take({ mayBeLarge: false }).map(({ name }) => name);
    expect([others(), others(), others()]).toEqual([["a", "b"], [], []]);
    expect([taken(queue), taken(queue), queue.size]).toEqual(["A", "B", 0]);
  });

  it("gives out as much as several batches hold, with each large one alone all the same", () => {
    const queue = queueOf(["a", 3], ["b", 3], ["A", 4], ["c", 3], ["d", 3], ["B", 4]);
    const three = () => queue.take({ batches: 3 }).map(({ name }) => name);
    expect([three(), three(), three(), three()]).toEqual([["a", "b", "c"], ["d"], ["A"], ["B"]]);
  });

  it("looks no further than a few jobs behind those that fill the batch", () => {
    const queue = queueOf(["a", 3], ...Array.from({ length: 16 }, () => ["b", 2] as const), [
      "c",
      0,
    ]);
    expect(taken(queue)).toBe("a");
    expect(taken(queue)).toBe("b c");
  });

  it("takes away the oldest that are over", () => {
    const queue = queueOf(["a", 1], ["b", 1], ["c", 1]);
    const isOver = ({ name }: Job) => name !== "b";
    expect(queue.takeWhile(isOver).map(({ name }) => name)).toEqual(["a"]);
    expect(queue.takeWhile(() => true)).toHaveLength(2);
    expect(queue.size).toBe(0);
  });
});
