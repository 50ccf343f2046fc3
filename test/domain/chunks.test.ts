import { expect, test } from "vitest";
import { chunksOf } from "../../src/domain/chunks.ts";

test("a list is divided in order, with what is left over last; nothing is divided into nothing", () => {
  expect(chunksOf([1, 2, 3, 4, 5], 2)).toEqual([[1, 2], [3, 4], [5]]);
  expect(chunksOf([1, 2], 2)).toEqual([[1, 2]]);
  expect(chunksOf([], 2)).toEqual([]);
});
