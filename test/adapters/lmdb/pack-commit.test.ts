import { expect, it } from "vitest";
import { packCommit } from "../../../src/adapters/lmdb/commit/pack-commit.ts";
import { readRegion } from "../../../src/adapters/lmdb/streams/read-region.ts";
import { TOPICS } from "../../../src/domain/log.ts";
import type { Topic } from "../../../src/domain/log.ts";

const KEY = Buffer.from("ep_1");

const streamOf = (topic: Topic, base: number, sizes: readonly number[]) => ({
  topic,
  partition: 0,
  base,
  next: base + sizes.length,
  records: sizes.map((sizeBytes, index) => ({
    offset: base + index,
    keyBytes: KEY,
    value: Buffer.alloc(sizeBytes, base + index),
    appendedAtMs: 1,
  })),
});

it("records that stay for long have a blob to themselves, all others share one", () => {
  const { blobs, rows } = packCommit(
    TOPICS.map((topic) => streamOf(topic, 3, [10])),
    5,
  );
  const alone = rows.filter(({ regionsInBlob }) => regionsInBlob === 1);
  expect(alone.map(({ topic }) => topic)).toEqual(
    TOPICS.filter((topic) =>
      ["held", "limits", "delay-15m", "delay-1h", "delay-4h"].includes(topic),
    ),
  );
  const shared = rows.filter((row) => !alone.includes(row));
  expect(new Set(shared.map(({ seq }) => seq)).size).toBe(1);
  expect(shared.every(({ regionsInBlob }) => regionsInBlob === shared.length)).toBe(true);
  expect(new Set(rows.map(({ seq }) => seq))).toEqual(new Set(blobs.map(({ seq }) => seq)));
  expect(blobs.map(({ seq }) => seq)).toEqual([5, 6, 7, 8, 9, 10]);
});

it("records of one stream that are more than a blob takes are in rows that follow one another", () => {
  const sizes = [400_000, 400_000, 400_000, 10, 3_000_000, 10];
  const { blobs, rows } = packCommit([streamOf("events", 7, sizes)], 1);
  expect(rows.map(({ base, next }) => [base, next])).toEqual([
    [7, 9],
    [9, 11],
    [11, 12],
    [12, 13],
  ]);
  const read = rows.flatMap((row) => {
    const { bytes } = blobs.find(({ seq }) => seq === row.seq)!;
    const region = Buffer.from(bytes).subarray(
      row.positionBytes,
      row.positionBytes + row.lengthBytes,
    );
    return readRegion(region, row, row.base, Infinity).records;
  });
  expect(read.map(({ offset, value }) => [offset, value.length, value[0]])).toEqual(
    sizes.map((sizeBytes, index) => [7 + index, sizeBytes, 7 + index]),
  );
});
