import { LRUCache } from "lru-cache";
import { afterEach, expect, it, vi } from "vitest";
import { packCommit } from "../../../src/adapters/lmdb/commit/pack-commit.ts";
import { CHECKSUM_BYTES } from "../../../src/adapters/lmdb/layout.ts";
import type { StreamId } from "../../../src/adapters/lmdb/layout.ts";
import { SegmentReader } from "../../../src/adapters/lmdb/segments/segment-reader.ts";
import { openStore } from "../../../src/adapters/lmdb/store.ts";
import type { CommitStore } from "../../../src/adapters/lmdb/store.ts";
import { storeIn, temporaryDir } from "../../support/log-lmdb.ts";

const COMMITS = 40;
const PAYLOAD_BYTES = 100_000;
const END_BYTES = 200;
const NOTHING = { groups: [], removedBelow: [], removedBlobs: [], refs: [], starts: [] };
/** Far less than the payloads of all commits. */
const CACHE_BYTES = 1_000_000;
const ENDS = Array.from({ length: 16 }, (_, partition) => ({
  topic: "attempts" as const,
  partition,
}));

afterEach(() => {
  vi.useRealTimers();
  vi.restoreAllMocks();
});

/** Fills a log in which each commit has one large event and the end of a try of every partition; nothing of it is in memory. */
async function openFilled(dir: string): Promise<CommitStore> {
  const store = await openStore({ ...storeIn(dir), cacheBytes: CACHE_BYTES });
  for (let offset = 0; offset < COMMITS; offset += 1) {
    const streamOf = (stream: StreamId, sizeBytes: number) => ({
      ...stream,
      base: offset,
      next: offset + 1,
      records: [
        {
          offset,
          keyBytes: Buffer.from("ep_1"),
          value: Buffer.alloc(sizeBytes, stream.partition),
          appendedAtMs: 1,
        },
      ],
    });
    const streams = [
      streamOf({ topic: "events", partition: 0 }, PAYLOAD_BYTES),
      ...ENDS.map((stream) => streamOf(stream, END_BYTES)),
    ];
    await store.commit({ ...NOTHING, packed: packCommit(streams, offset + 1) });
  }
  await store.reopen();
  return store;
}

/** Counts the bytes that are read from the segments. */
function countReads(): { bytes: number } {
  const counted = { bytes: 0 };
  const { read } = SegmentReader.prototype;
  vi.spyOn(SegmentReader.prototype, "read").mockImplementation(function counting(
    this: SegmentReader,
    place,
  ) {
    counted.bytes += place.lengthBytes;
    return read.call(this, place);
  });
  return counted;
}

it("regression: partitions that read their small records back one after the other do not read everybody's payloads: at its start a relay read all of its log, many times over", async () => {
  await using dir = await temporaryDir();
  await using store = await openFilled(dir.path);
  const counted = countReads();
  let wantedBytes = 0;
  for (const stream of ENDS)
    for (const row of store.rowsFrom(stream, 0, COMMITS)) {
      const bytes = store.region(row)!;
      expect(bytes.at(-1)).toBe(stream.partition);
      wantedBytes += bytes.length + CHECKSUM_BYTES;
    }
  expect(wantedBytes).toBeGreaterThan(ENDS.length * COMMITS * END_BYTES);
  expect(counted.bytes).toBe(wantedBytes);
});

it("partitions that read the same commits at the same time read each of them once, whole, after a first look", async () => {
  await using dir = await temporaryDir();
  await using store = await openFilled(dir.path);
  const counted = countReads();
  let firstLooksBytes = 0;
  for (let offset = 0; offset < COMMITS; offset += 1)
    for (const stream of ENDS) {
      const [row] = store.rowsFrom(stream, offset, 1);
      const bytes = store.region(row!)!;
      expect(bytes.at(-1)).toBe(stream.partition);
      if (stream === ENDS[0]) firstLooksBytes += bytes.length;
    }
  const storedBytes = COMMITS * (PAYLOAD_BYTES + ENDS.length * END_BYTES);
  expect(counted.bytes - firstLooksBytes).toBeGreaterThan(storedBytes);
  expect(counted.bytes - firstLooksBytes).toBeLessThan(storedBytes * 1.1);
});

it("a region that is most of its commit is read with all of it, once", async () => {
  await using dir = await temporaryDir();
  await using store = await openFilled(dir.path);
  const counted = countReads();
  const [row] = store.rowsFrom({ topic: "events", partition: 0 }, 0, 1);
  store.region(row!);
  const [other] = store.rowsFrom(ENDS[3]!, 0, 1);
  const readBytes = counted.bytes;
  expect(store.region(other!)!.at(-1)).toBe(3);
  expect(counted.bytes).toBe(readBytes);
});

it("a commit that nobody has asked for in ten seconds is let go, however little has been read since: what receivers that hang had put off filled 32 MB with it", async () => {
  await using dir = await temporaryDir();
  await using store = await openFilled(dir.path);
  const read = (offset: number): void => {
    const [row] = store.rowsFrom({ topic: "events", partition: 0 }, offset, 1);
    store.region(row!);
  };
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  const now = vi.spyOn(performance, "now");
  const purge = vi.spyOn(LRUCache.prototype, "purgeStale");
  for (let offset = 0; offset < 4; offset += 1) {
    now.mockReturnValue(100_000 + offset * 6_000);
    vi.advanceTimersByTime(6_000);
    read(offset);
  }
  expect(purge.mock.contexts.at(-1)).toHaveProperty("size", 2);
  const counted = countReads();
  read(3);
  expect(counted.bytes).toBe(0);
  read(0);
  expect(counted.bytes).toBeGreaterThan(PAYLOAD_BYTES);
});
