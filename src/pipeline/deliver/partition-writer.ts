import type { NewRecord, OwnedPartition, Position } from "../../domain/log.ts";
import type { PartitionPositions } from "./partition-positions.ts";
import type { SharedDelivery } from "./shared-delivery.ts";

/** Appends for one partition, noting where the records went. Never rejects. `mayWrite` is asked before every try. */
export type WriteRecords = (
  records: readonly NewRecord[],
  mayWrite?: () => boolean,
) => Promise<readonly Position[] | null>;

/** Null: given up because the process stops or `mayWrite` said no, or refused by the log for good (logged). */
export function makePartitionWriter(
  shared: SharedDelivery,
  partition: OwnedPartition,
  positions: PartitionPositions,
): WriteRecords {
  const { appender, logger } = shared.ports;
  return async (records, mayWrite = () => true) => {
    try {
      const isNeeded = (): boolean => !shared.cutOff.aborted && mayWrite();
      const written = await appender.append(records, isNeeded);
      if (written !== null) positions.known.onAppended(partition.partition, records, written);
      return written;
    } catch (error) {
      const topics = records.map((record) => record.topic);
      logger.error({ partition: partition.partition, topics, err: error }, "log.append_refused");
      return null;
    }
  };
}
