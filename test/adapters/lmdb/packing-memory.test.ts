import { expect, test } from "vitest";
import { PackingMemory } from "../../../src/adapters/lmdb/commit/packing-memory.ts";

const MIB = 1024 * 1024;

test("commits are packed in the same memory one after the other, and nothing of one commit overlaps", () => {
  const memory = new PackingMemory();
  const buffers = new Set<ArrayBufferLike>();
  for (let commit = 0; commit < 50; commit += 1) {
    memory.begin();
    const pieces = Array.from({ length: 10 }, (_, index) =>
      memory.take(20_000 + index).fill(index),
    );
    for (const [index, piece] of pieces.entries())
      expect([piece.length, piece.every((byte) => byte === index)]).toEqual([20_000 + index, true]);
    if (commit > 0) for (const { buffer } of pieces) buffers.add(buffer);
  }
  expect(buffers.size).toBe(1);
});

test("keeps no more than 4 MiB, however large a commit is", () => {
  const memory = new PackingMemory();
  const takeIn = (...sizes: number[]): ArrayBufferLike[] => {
    memory.begin();
    return sizes.map((sizeBytes) => memory.take(sizeBytes).buffer);
  };
  takeIn(12 * MIB);
  const [first, second] = takeIn(3 * MIB, 2 * MIB);
  expect([first!.byteLength, second!.byteLength]).toEqual([4 * MIB, 2 * MIB]);
  expect(takeIn(12 * MIB, 1)[0]).not.toBe(first);
  expect(takeIn(4 * MIB)).toEqual([first]);
  expect(takeIn(1)[0]).toBe(first);
});
