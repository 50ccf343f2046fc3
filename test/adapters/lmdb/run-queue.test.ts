import { expect, it } from "vitest";
import { RunQueue } from "../../../src/adapters/lmdb/run-queue.ts";
import { nextTurn } from "../../../src/domain/next-turn.ts";
import { systemClock } from "../../support/log-fakes.ts";

/** Makes a queue whose steps take time by its own clock, and notes which of them ran. */
function makeQueue() {
  let nowMs = 0;
  const queue = new RunQueue({ ...systemClock, monotonic: () => nowMs });
  const ran: string[] = [];
  const add = (name: string, takesMs: number, then: () => void = () => {}): void =>
    queue.add(() => {
      nowMs += takesMs;
      ran.push(name);
      then();
    });
  return { add, ran };
}

it("what is ready runs in turn for five milliseconds; then the event loop's other work, and the rest in the order in which it came", async () => {
  const { add, ran } = makeQueue();
  add("a", 2, () => add("a again", 1));
  add("b", 2);
  add("c", 2);
  add("d", 20);
  add("e", 1);
  expect(ran).toEqual([]);
  await nextTurn();
  expect(ran).toEqual(["a", "b", "c"]);
  await nextTurn();
  expect(ran).toEqual(["a", "b", "c", "d"]);
  await nextTurn();
  expect(ran).toEqual(["a", "b", "c", "d", "e", "a again"]);
});

it("a step runs in each turn, however late that comes, and the queue begins anew once it was empty", async () => {
  const { add, ran } = makeQueue();
  for (const name of ["a", "b"]) {
    add(name, 1_000);
    await nextTurn();
    expect(ran.splice(0)).toEqual([name]);
    await nextTurn();
  }
});
