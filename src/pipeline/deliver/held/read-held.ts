import type { OwnedPartition } from "../../../domain/log.ts";

/** Bytes of wanted records after which a read stops. */
const MAX_WANTED_BYTES = 4 * 1_048_576;
/** The same for all records it reads: wanted ones may be far apart, and others wait for what it has found. */
const MAX_READ_BYTES = 8 * 1_048_576;

export interface HeldRead {
  /** The wanted records that were found, by offset. */
  readonly values: ReadonlyMap<number, Uint8Array>;
  /** Wanted records below this offset that were not found are no longer in the log. */
  readonly passedTo: number;
  /** Whether it stopped before it came to the last wanted record. */
  readonly isCut: boolean;
}

/**
 * Reads the records at these offsets, at least one, in any order: once through the log, and only the first of them if they are
 * large or far apart.
 */
export async function readHeld(
  partition: Pick<OwnedPartition, "read">,
  offsets: readonly number[],
): Promise<HeldRead> {
  const wanted = new Set(offsets);
  const first = offsets.reduce((lowest, offset) => Math.min(lowest, offset));
  const last = offsets.reduce((highest, offset) => Math.max(highest, offset));
  const values = new Map<number, Uint8Array>();
  let wantedBytes = 0;
  let readBytes = 0;
  let passedTo = first;
  for await (const records of partition.read("held", first))
    for (const { offset, value } of records) {
      passedTo = offset + 1;
      readBytes += value.length;
      if (wanted.has(offset)) {
        values.set(offset, value);
        wantedBytes += value.length;
      }
      if (offset >= last) return { values, passedTo, isCut: false };
      if (wantedBytes > MAX_WANTED_BYTES || readBytes > MAX_READ_BYTES)
        return { values, passedTo, isCut: true };
    }
  return { values, passedTo, isCut: false };
}
