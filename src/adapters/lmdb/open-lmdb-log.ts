import { join } from "node:path";
import type { Clock } from "../../domain/clock.ts";
import { LogError } from "../../domain/log.ts";
import type { ConsumerOptions, Log, LogConsumer, NewRecord, Position } from "../../domain/log.ts";
import type { Logger } from "../../domain/logger.ts";
import { GroupCommit } from "./commit/group-commit.ts";
import { Group } from "./groups/group.ts";
import { GroupStates } from "./groups/group-states.ts";
import { makeLossTellers } from "./lost-records.ts";
import { NO_METRICS } from "./metrics.ts";
import type { LmdbLogMetrics } from "./metrics.ts";
import { RunQueue } from "./run-queue.ts";
import { openStore } from "./store.ts";
import type { CommitStore } from "./store.ts";
import { StreamTable } from "./streams/stream-table.ts";
import { Trimmer } from "./streams/trimmer.ts";

const MIB = 1024 * 1024;
const PARTITIONS_KEY = "partitions";

export interface LmdbLogOptions {
  /** Directory of the log's files; made if missing. Only one process may have it open: see `embedded/data-dir.ts`. */
  readonly dir: string;
  readonly partitions: number;
  /** How long records stay after every group has committed past them. */
  readonly retentionMs: number;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics?: LmdbLogMetrics;
  /** Most bytes of appends under way; more are refused with `log_full`. Default 64 MiB. */
  readonly maxPendingBytes?: number;
  /** Default 64 MiB. */
  readonly maxRecordBytes?: number;
  /** Memory for what was recently written or read. Default 64 MiB. */
  readonly cacheBytes?: number;
  /** Address space for LMDB's map, neither memory nor disk; its file, without the segments, grows no larger. Default 256 GiB. */
  readonly mapSizeBytes?: number;
  /** Time between two trims; 0 trims only when asked to. Default 30 s. */
  readonly trimIntervalMs?: number;
  /** Lets tests put in storage that is slow or fails. */
  readonly wrapStore?: (store: CommitStore) => CommitStore;
}

export interface LmdbLog extends Log {
  /** Removes what is no longer needed. @returns regions removed */
  trim(): Promise<number>;
}

/**
 * Opens the embedded log.
 * @throws {LogError} `log_unavailable` when the files cannot be opened
 */
export async function openLmdbLog(options: LmdbLogOptions): Promise<LmdbLog> {
  const opened = await openStore({
    path: join(options.dir, "log.mdb"),
    segmentsDir: join(options.dir, "segments"),
    mapSizeBytes: options.mapSizeBytes ?? 256 * 1024 * MIB,
    cacheBytes: options.cacheBytes ?? 64 * MIB,
    ...makeLossTellers(options.logger, options.metrics ?? NO_METRICS),
  });
  const store = options.wrapStore?.(opened) ?? opened;
  const log = new EmbeddedLog(options, store, keptPartitions(options, store));
  try {
    await log.start();
    return log;
  } catch (error) {
    await log[Symbol.asyncDispose]();
    throw error;
  }
}

/** Returns the number of partitions, which never shrinks: records of the lost ones would no longer be read. */
function keptPartitions(options: LmdbLogOptions, store: CommitStore): number {
  const known = knownPartitions(store);
  if (known > options.partitions)
    options.logger.warn(
      { partitions: known, wanted: options.partitions, why: "their number can only grow" },
      "log.partitions_kept",
    );
  return Math.max(known, options.partitions);
}

function knownPartitions(store: CommitStore): number {
  const entry = store.groupEntries().find(([key]) => key === PARTITIONS_KEY);
  return Number(entry?.[1] ?? 0);
}

class EmbeddedLog implements LmdbLog {
  readonly writesWhole = true;
  readonly partitions: number;
  readonly #options: LmdbLogOptions;
  readonly #store: CommitStore;
  readonly #streams: StreamTable;
  readonly #writer: GroupCommit;
  readonly #states: GroupStates;
  readonly #trimmer: Trimmer;
  readonly #queue: RunQueue;
  readonly #groups = new Map<string, Group>();
  #closing: Promise<void> | null = null;

  constructor(options: LmdbLogOptions, store: CommitStore, partitions: number) {
    this.partitions = partitions;
    this.#options = options;
    this.#store = store;
    this.#streams = new StreamTable(store, partitions);
    this.#queue = new RunQueue(options.clock);
    this.#writer = new GroupCommit({
      store,
      streams: this.#streams,
      clock: options.clock,
      metrics: options.metrics ?? NO_METRICS,
      maxPendingBytes: options.maxPendingBytes ?? 64 * MIB,
      maxRecordBytes: options.maxRecordBytes ?? 64 * MIB,
    });
    this.#states = new GroupStates({
      store,
      streams: this.#streams,
      writer: this.#writer,
      ahead: (ahead) =>
        options.logger.error(
          { ...ahead, why: "the log ends before: going on from its end" },
          "log.group_ahead",
        ),
    });
    this.#trimmer = new Trimmer({
      store,
      streams: this.#streams,
      groups: this.#states,
      writer: this.#writer,
      clock: options.clock,
      logger: options.logger,
      metrics: options.metrics ?? NO_METRICS,
      retentionMs: options.retentionMs,
      intervalMs: options.trimIntervalMs ?? 30_000,
    });
  }

  async start(): Promise<void> {
    if (knownPartitions(this.#store) === this.partitions) return;
    await this.#writer.change(() => ({ groups: [[PARTITIONS_KEY, String(this.partitions)]] }));
  }

  append(records: readonly NewRecord[]): Promise<readonly Position[]> {
    return this.#writer.append(records);
  }

  /** Has nothing to learn: the log grows only when it is opened. */
  async learnPartitions(): Promise<void> {}

  async consume(options: ConsumerOptions): Promise<LogConsumer> {
    this.#refuseClosed();
    await this.#states.register(options.group, {
      topics: options.topics,
      sideTopics: options.sideTopics ?? [],
    });
    this.#refuseClosed();
    let group = this.#groups.get(options.group);
    if (group === undefined) {
      group = new Group({
        store: this.#store,
        streams: this.#streams,
        groups: this.#states,
        queue: this.#queue,
        clock: this.#options.clock,
      });
      this.#groups.set(options.group, group);
    }
    return group.join(options);
  }

  #refuseClosed(): void {
    if (this.#closing !== null) throw new LogError("log_closed", "the log is closed");
  }

  trim(): Promise<number> {
    return this.#trimmer.trim();
  }

  [Symbol.asyncDispose](): Promise<void> {
    this.#closing ??= this.#close();
    return this.#closing;
  }

  async #close(): Promise<void> {
    await this.#trimmer[Symbol.asyncDispose]();
    await Promise.all([...this.#groups.values()].map((group) => group.leaveAll()));
    await this.#writer[Symbol.asyncDispose]();
    await this.#store[Symbol.asyncDispose]();
  }
}
