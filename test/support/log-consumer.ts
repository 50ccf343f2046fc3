import type {
  ConsumerOptions,
  Log,
  LogConsumer,
  LogRecord,
  NewRecord,
  OwnedPartition,
  Topic,
} from "../../src/domain/log.ts";
import { until } from "./wait-for.ts";

export interface Collector extends AsyncDisposable {
  readonly consumer: LogConsumer;
  /** Everything handed over, in order. */
  readonly records: LogRecord[];
  readonly errors: Error[];
  /** Partitions owned now. */
  readonly owned: Map<number, OwnedPartition>;
  /** Waits until this many records were handed over. */
  received(count: number): Promise<readonly LogRecord[]>;
}

export interface CollectorOptions extends Partial<ConsumerOptions> {
  readonly group: string;
  readonly topics: readonly Topic[];
  readonly deadlineMs: number;
}

/** Starts a consumer that keeps what it gets and commits nothing by itself. */
export async function collect(log: Log, options: CollectorOptions): Promise<Collector> {
  const records: LogRecord[] = [];
  const errors: Error[] = [];
  const owned = new Map<number, OwnedPartition>();
  const consumer = await log.consume({
    ...options,
    onAssigned: async (partition) => {
      owned.set(partition.partition, partition);
      await options.onAssigned?.(partition);
    },
    onRevoked: async (partition) => {
      await options.onRevoked?.(partition);
      if (owned.get(partition.partition) === partition) owned.delete(partition.partition);
    },
    onRecords: (partition, topic, batch) => {
      for (const record of batch) records.push(record);
      return options.onRecords?.(partition, topic, batch);
    },
    onError: (error) => {
      errors.push(error);
      options.onError?.(error);
    },
  });
  return {
    consumer,
    records,
    errors,
    owned,
    received: async (count) => {
      await until(
        () => records.length >= count,
        `${count} records for ${options.group}, got ${records.length}`,
        options.deadlineMs,
      );
      return records;
    },
    [Symbol.asyncDispose]: () => consumer[Symbol.asyncDispose](),
  };
}

export function record(
  topic: Topic,
  partition: number,
  text: string,
  key = `key-${partition}`,
): NewRecord {
  return { topic, key, partition, value: Buffer.from(text) };
}

export function text(record: LogRecord): string {
  return Buffer.from(record.value).toString();
}
