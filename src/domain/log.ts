/** The log port. Two adapters (LMDB, Kafka) and one conformance suite: `test/conformance/log`. */

export const TOPICS = [
  "events",
  "tasks",
  "attempts",
  "held",
  "limits",
  "delay-1s",
  "delay-4s",
  "delay-15s",
  "delay-1m",
  "delay-4m",
  "delay-15m",
  "delay-1h",
  "delay-4h",
] as const;
/**
 * All topics have the same number of partitions and the same key (endpoint id), so partition p of one belongs with partition p
 * of all.
 */
export type Topic = (typeof TOPICS)[number];

export interface NewRecord {
  readonly topic: Topic;
  /** The endpoint id: decides the partition. */
  readonly key: string;
  /** Set to put a record on a given partition whatever its key says (markers). */
  readonly partition?: number;
  readonly value: Uint8Array;
}

/** `soon`: nothing waits for the append, so it may wait for others to share its commit. */
export type Urgency = "now" | "soon";

export interface LogRecord {
  readonly topic: Topic;
  readonly partition: number;
  readonly offset: number;
  readonly key: string;
  readonly value: Uint8Array;
  /** When it was appended, ms since the epoch. */
  readonly appendedAtMs: number;
}

export interface Position {
  readonly partition: number;
  readonly offset: number;
}

export const LOG_ERROR_CODES = [
  "log_full",
  "log_unavailable",
  "log_outcome_unknown",
  "log_record_too_large",
  "log_closed",
] as const;

/** `log_full` and `log_unavailable` mean: not accepted, answer 503. `log_outcome_unknown`: it may or may not be in the log. */
export class LogError extends Error {
  readonly code: (typeof LOG_ERROR_CODES)[number];
  readonly retryable: boolean;
  /** When an append failed for only some of its records: the positions of the others, null for the failed ones. Null when all failed. */
  readonly appended: readonly (Position | null)[] | null;
  constructor(
    code: LogError["code"],
    message: string,
    options: ErrorOptions & { readonly appended?: readonly (Position | null)[] } = {},
  ) {
    super(message, options);
    this.name = "LogError";
    this.code = code;
    this.appended = options.appended ?? null;
    this.retryable = code !== "log_record_too_large" && code !== "log_closed";
  }
}

/** Returns whether an error says that the ownership of a partition has ended: its next owner does what was to be done. */
export function isOwnershipOver(error: unknown): boolean {
  return error instanceof LogError && error.code === "log_closed";
}

/** Returns what an append that failed with `error` appended all the same: see `LogError.appended`. */
export function appendedDespite(error: unknown): LogError["appended"] {
  return error instanceof LogError ? error.appended : null;
}

export interface LogProducer {
  /**
   * Appends all records; resolves once they are durable (fsync, or acks=all), with their positions in the order given. Their values
   * are not looked at any more then, and may be overwritten.
   * Calls made close together share one write. Records of one call and one partition stay in order.
   * When only some of the records fail, the error tells where the others are: see `LogError.appended`.
   * @throws {LogError}
   */
  append(records: readonly NewRecord[]): Promise<readonly Position[]>;
}

/** Durable appends that ride out an unavailable log: see `pipeline/attempts`. */
export interface DurableAppender {
  /**
   * Resolves with the positions once all records are durable; retries while the log is unavailable. Resolves with null if
   * `stillNeeded` returned false before that. `urgency` defaults to `now`.
   */
  append(
    records: readonly NewRecord[],
    stillNeeded: () => boolean,
    urgency?: Urgency,
  ): Promise<readonly Position[] | null>;
}

/** How far a group has got in a topic. */
export interface Committed {
  /** Offset of the next record to read. */
  readonly offset: number;
  readonly metadata: string;
}

/** What a group commits for a topic. */
export interface CommitEntry {
  readonly topic: Topic;
  /** Offset of the next record to read. */
  readonly offset: number;
  readonly metadata?: string;
}

/** One partition number of every subscribed topic, owned by this consumer for a while. */
export interface OwnedPartition {
  readonly partition: number;
  /**
   * How many partitions the log had at this assignment. All who own one at the same time go by the same number, even while the
   * log grows.
   */
  readonly partitions: number;
  /** False from the moment ownership may have ended (revoked, or the session is over by the monotonic clock): send nothing. */
  owned(): boolean;
  /**
   * True while no one else can own the partition: like `owned`, but also between its revocation and the last commits. What
   * would be wrong once the next owner has begun may only be written while this is true.
   */
  exclusive(): boolean;
  /** What the group committed before this assignment; null when nothing was. */
  committed(topic: Topic): Committed | null;
  /** Offset that the next appended record will get, as known now. */
  endOffset(topic: Topic): Promise<number>;
  /** Reads in batches, from an offset up to the end as it is at the call. Also for `sideTopics`. */
  read(topic: Topic, fromOffset: number): AsyncIterable<readonly LogRecord[]>;
  /** Durable when resolved. A commit after ownership ended is ignored. @throws {LogError} */
  commit(entries: readonly CommitEntry[]): Promise<void>;
}

export interface ConsumerOptions {
  readonly group: string;
  /** Topics whose records flow to `onRecords`, from the committed offset (the beginning when there is none). */
  readonly topics: readonly Topic[];
  /** Topics owned together with these, but only read on demand through `OwnedPartition.read`. */
  readonly sideTopics?: readonly Topic[];
  /** Most bytes handed over in one `onRecords`. */
  readonly maxBatchBytes?: number;
  /** Called before the first record of a partition flows; records flow once it has resolved. */
  onAssigned(partition: OwnedPartition): Promise<void>;
  /**
   * Called when ownership ends: `owned()` is already false for new work; last commits are still possible until this resolves
   * (bounded, 5 s).
   */
  onRevoked(partition: OwnedPartition): Promise<void>;
  /** Must return soon. If it returns a promise, the next batch of this partition and topic waits for it. */
  onRecords(
    partition: OwnedPartition,
    topic: Topic,
    records: readonly LogRecord[],
  ): void | Promise<void>;
  /** Called when the consumer broke and will be restarted by its adapter, or (fatal) has ended. */
  onError(error: Error): void;
  /** Called when a consumer that broke has been restarted and works. @param afterMs since it broke */
  onRestored?(afterMs: number): void;
}

export interface LogConsumer extends AsyncDisposable {
  /** Records between committed and end offsets of the partitions it owns, by topic: for metrics. Empty while it owns none. */
  lag(): Promise<ReadonlyMap<Topic, number>>;
}

export interface Log extends LogProducer, AsyncDisposable {
  /** Number of partitions known now, by which records without a `partition` are placed. An `OwnedPartition` has its own number. */
  readonly partitions: number;
  /**
   * Looks up the current number of partitions; calls made close together share a look-up. Never rejects: on failure the known
   * number stays.
   */
  learnPartitions(): Promise<void>;
  /** Whether all records of an append become durable together or none do, whatever partitions they go to. */
  readonly writesWhole: boolean;
  consume(options: ConsumerOptions): Promise<LogConsumer>;
  /**
   * Returns what a group has committed as metadata of a topic, in any partition; nothing while it has no member. Absent where no
   * other relay can have the log.
   */
  committedMetadata?(group: string, topic: Topic): Promise<readonly string[]>;
}
