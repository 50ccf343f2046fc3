import { LogError } from "../../../domain/log.ts";
import type { LogRecord } from "../../../domain/log.ts";
import { readRegion } from "./read-region.ts";
import type { CommitStore } from "../store.ts";
import type { StreamState } from "./stream-state.ts";

export interface ReadBatch {
  readonly records: readonly LogRecord[];
  /** The offset to read on from. */
  readonly next: number;
}

const ROWS_PER_LOOKUP = 32;

/** Returns the next records of a stream from `offset` on, about `maxBytes` of them; none at the end. */
export function readBatch(
  store: CommitStore,
  stream: StreamState,
  offset: number,
  maxBytes: number,
): ReadBatch {
  let next = Math.max(offset, stream.startOffset);
  const records: LogRecord[] = [];
  let leftBytes = maxBytes;
  let trustTail = true;
  while (next < stream.endOffset) {
    const tail = trustTail ? stream.tailFrom(next, ROWS_PER_LOOKUP) : null;
    const rows = tail ?? store.rowsFrom(stream, next, ROWS_PER_LOOKUP);
    if (rows.length === 0) return { records, next: stream.endOffset };
    for (const row of rows) {
      const bytes = store.region(row);
      if (bytes === null) {
        // Compacted or trimmed between the two look-ups: the index on disk knows better now.
        if (!trustTail && tail === null) throw missing(stream, next);
        trustTail = false;
        break;
      }
      const region = readRegion(bytes, row, next, leftBytes);
      if (records.length > 0 && region.sizeBytes > leftBytes) return { records, next };
      records.push(...region.records);
      next = region.next;
      leftBytes -= region.sizeBytes;
      if (leftBytes <= 0 || region.next < row.next) return { records, next };
    }
  }
  return { records, next };
}

function missing(stream: StreamState, offset: number): LogError {
  const where = `${stream.topic}/${stream.partition} at offset ${offset}`;
  return new LogError("log_unavailable", `the embedded log has lost records of ${where}`);
}
