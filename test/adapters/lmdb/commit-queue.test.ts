import { describe, expect, it } from "vitest";
import { CommitQueue } from "../../../src/adapters/lmdb/commit/commit-queue.ts";

const MB = 1_048_576;

interface Job {
  readonly name: string;
  readonly sizeBytes: number;
}

function queueOf(...jobs: readonly (readonly [name: string, mb: number])[]): CommitQueue<Job> {
  const queue = new CommitQueue<Job>();
  for (const [name, mb] of jobs) queue.add({ name, sizeBytes: mb * MB });
  return queue;
}

const taken = (queue: CommitQueue<Job>): string =>
  queue
    .take()
    .map(({ name }) => name)
    .join(" ");

describe("the queue of the embedded log's commits", () => {
  it("gives out all that fits one commit, in the order in which it came", () => {
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
    queue.add({ name: "b", sizeBytes: 100 });
    expect([taken(queue), taken(queue), taken(queue)]).toEqual(["A", "b", "B"]);
    expect(taken(queue)).toBe("C");
  });

  it("lets others go before a large record once only", () => {
    const queue = queueOf(["A", 10]);
    const order = Array.from({ length: 4 }, (_, at) => {
      queue.add({ name: `a${at}`, sizeBytes: MB });
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
    queue.add({ name: "b", sizeBytes: MB });
    expect([taken(queue), taken(queue)]).toEqual(["b", "B"]);
  });
});
