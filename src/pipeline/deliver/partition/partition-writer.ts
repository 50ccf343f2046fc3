import { pause } from "../../../domain/clock.ts";
import type { Clock } from "../../../domain/clock.ts";
import type { NewRecord, OwnedPartition, Position, Urgency } from "../../../domain/log.ts";
import type { PartitionPositions } from "./partition-positions.ts";
import type { SharedDelivery } from "../shared-delivery.ts";

export const DOUBT_CHECK_MS = 200;

interface WriteOptions {
  /** Checked before every call to the log. Default: writes until the process stops. */
  readonly mayWrite?: () => boolean;
  readonly urgency?: Urgency;
}

/** Appends for one partition, noting where the records went. Never rejects. */
export type WriteRecords = (
  records: readonly NewRecord[],
  options?: WriteOptions,
) => Promise<readonly Position[] | null>;

/**
 * Makes a writer that resolves with null if it gave up because the process stops or `mayWrite` returned false, or if the log
 * refused the records for good (logged).
 */
export function makePartitionWriter(
  shared: SharedDelivery,
  partition: OwnedPartition,
  positions: PartitionPositions,
): WriteRecords {
  const { appender, logger } = shared.ports;
  return async (records, { mayWrite = () => true, urgency } = {}) => {
    try {
      const isNeeded = (): boolean => !shared.cutOff.aborted && mayWrite();
      const written = await appender.append(records, isNeeded, urgency);
      if (written !== null) positions.known.onAppended(partition.partition, records, written);
      return written;
    } catch (error) {
      const topics = records.map((record) => record.topic);
      logger.error({ partition: partition.partition, topics, err: error }, "log.append_refused");
      return null;
    }
  };
}

/** What tells whether records may still be written for a partition; `isOpen` holds until its owner closes. */
export interface Ownership {
  readonly partition: OwnedPartition;
  readonly clock: Clock;
  readonly isOpen: () => boolean;
}

/**
 * Writes records that let a run go on, only while nobody else can own the partition: the next owner makes the same try anew,
 * and the last row of a try stands. Waits while ownership is in doubt; resolves with null once it has ended.
 */
export async function writeOwned(
  write: WriteRecords,
  owned: Ownership,
  records: readonly NewRecord[],
  urgency: Urgency,
): Promise<readonly Position[] | null> {
  for (;;) {
    let isDoubtful = false;
    const mayWrite = (): boolean => {
      isDoubtful = !owned.partition.exclusive();
      return !isDoubtful;
    };
    const written = await write(records, { mayWrite, urgency });
    if (!isDoubtful || !owned.isOpen()) return written;
    await pause(owned.clock, DOUBT_CHECK_MS);
  }
}
