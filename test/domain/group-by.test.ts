import { expect, test } from "vitest";
import { groupBy } from "../../src/domain/group-by.ts";

test("items of one key are together in their order, and keys in the order in which they first occur", () => {
  const groups = groupBy(["bb", "a", "cc", "d"], (text) => text.length);
  expect([...groups]).toEqual([
    [2, ["bb", "cc"]],
    [1, ["a", "d"]],
  ]);
  expect(groupBy([], String).size).toBe(0);
});
