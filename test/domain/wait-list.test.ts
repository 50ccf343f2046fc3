import { expect, test } from "vitest";
import { WaitList } from "../../src/domain/wait-list.ts";

test("all that wait are woken together, and what waits again is left to the next call", async () => {
  const list = new WaitList();
  const woken: string[] = [];
  const wait = async (name: string): Promise<void> => {
    await list.wait();
    woken.push(name);
  };
  const first = Promise.all([wait("a"), wait("b").then(() => void wait("b again"))]);
  list.wakeAll();
  await first;
  expect(woken).toEqual(["a", "b"]);
  list.wakeAll();
  await Promise.resolve();
  expect(woken).toEqual(["a", "b", "b again"]);
  list.wakeAll();
});
