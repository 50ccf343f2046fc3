import type { GroupCommit } from "../commit/group-commit.ts";
import type { Row } from "../layout.ts";
import { packCommit } from "../commit/pack-commit.ts";
import type { PackedRecord } from "../commit/pack-commit.ts";
import { readRegion } from "./read-region.ts";
import type { CommitStore } from "../store.ts";
import type { StreamState } from "./stream-state.ts";

/**
 * Rewrites a stream so that only the latest record of every key is left, with the offset it had.
 * Does nothing while the stream lies in fewer than `minRows` regions; appends may go on meanwhile.
 * @returns regions left, or null when it did nothing
 */
export async function compactStream(
  store: CommitStore,
  writer: GroupCommit,
  stream: StreamState,
  minRows: number,
): Promise<number | null> {
  const rows = store.rowsFrom(stream, stream.startOffset, Number.MAX_SAFE_INTEGER);
  if (rows.length < minRows) return null;
  const latest = new Map<string, PackedRecord>();
  for (const row of rows)
    for (const record of regionRecords(store, row)) {
      // Deleted first: the map's order must be that of the offsets.
      latest.delete(record.key);
      const { offset, value, appendedAtMs } = record;
      latest.set(record.key, { offset, keyBytes: Buffer.from(record.key), value, appendedAtMs });
    }
  const base = rows[0]!.base;
  const next = rows.at(-1)!.next;
  const records = [...latest.values()];
  let rowsLeft = 0;
  await writer.change((allocateSeq) => {
    const firstSeq = allocateSeq();
    const { topic, partition } = stream;
    const packed = packCommit([{ topic, partition, records, base, next }], firstSeq);
    for (let blob = 1; blob < packed.blobs.length; blob++) allocateSeq();
    rowsLeft = packed.rows.length;
    return {
      packed,
      removedBelow: [[stream, next]],
      removedBlobs: rows.map((row) => row.seq),
    };
  });
  stream.forgetBelow(next);
  return rowsLeft;
}

function regionRecords(store: CommitStore, row: Row) {
  const bytes = store.region(row);
  if (bytes === null) throw new Error(`the embedded log has lost blob ${row.seq} of ${row.topic}`);
  return readRegion(bytes, row, row.base, Infinity).records;
}
