import { BatchQueue } from "../../../domain/batch-queue.ts";
import { LogError } from "../../../domain/log.ts";
import type { NewRecord, Position } from "../../../domain/log.ts";
import type { Clock } from "../../../domain/clock.ts";
import { partitionOf } from "../../../domain/partition.ts";
import { WaitList } from "../../../domain/wait-list.ts";
import { CommitRefused } from "./commit-thread.ts";
import { RECORD_HEAD_BYTES } from "../layout.ts";
import { MAX_SEGMENT_COMMIT_BYTES } from "../segments/segments.ts";
import type { LmdbLogMetrics } from "../metrics.ts";
import { Draft } from "./draft.ts";
import type { PreparedRecord } from "./draft.ts";
import { packCommit } from "./pack-commit.ts";
import type { PackedCommit } from "./pack-commit.ts";
import type { CommitStore, StoreCommit } from "../store.ts";
import { PackingMemory } from "./packing-memory.ts";
import { PendingBytes } from "./pending-bytes.ts";
import type { TakenBytes } from "./pending-bytes.ts";
import type { StreamTable } from "../streams/stream-table.ts";

/** What may ride along with records in one transaction: group commits, trimming. */
type Change = Partial<StoreCommit>;

interface Append {
  readonly kind: "append";
  readonly records: readonly PreparedRecord[];
  readonly sizeBytes: number;
  readonly taken: TakenBytes;
  readonly enqueuedAtMs: number;
  resolve(positions: readonly Position[]): void;
  reject(error: Error): void;
}
interface ChangeJob {
  readonly kind: "change";
  readonly sizeBytes: 0;
  readonly records: readonly [];
  /** Called when its turn comes, so that it sees all commits before it. */
  readonly make: (allocateSeq: () => number) => Change;
  resolve(): void;
  reject(error: Error): void;
}

/** A commit that is durable. */
interface Written {
  readonly appended: PackedCommit;
  /** Of each job's records, in the order of the jobs. */
  readonly positions: readonly (readonly Position[])[];
  readonly nextSeq: number;
}

/** A commit of this size still fits a segment, with its rows and heads; one that does not goes to LMDB, whose file never shrinks. */
const MAX_GATHERED_BYTES = MAX_SEGMENT_COMMIT_BYTES - 256 * 1024;
const MAX_KEY_BYTES = 65_535;
const EMPTY: PackedCommit = { blobs: [], rows: [] };

interface GroupCommitOptions {
  readonly store: CommitStore;
  readonly streams: StreamTable;
  readonly clock: Clock;
  readonly metrics: LmdbLogMetrics;
  readonly maxPendingBytes: number;
  readonly maxRecordBytes: number;
}

/**
 * Gathers what is appended while a transaction is under way into the next one. They run one at a time, so offsets are
 * given out when a commit starts, and simply not taken if it fails.
 */
export class GroupCommit implements AsyncDisposable {
  readonly #options: GroupCommitOptions;
  readonly #queue = new BatchQueue<Append | ChangeJob>({
    maxBytes: MAX_GATHERED_BYTES,
    maxRecords: Number.POSITIVE_INFINITY,
  });
  readonly #pending: PendingBytes;
  readonly #memory = new PackingMemory();
  #nextSeq: number;
  #flushing = false;
  #scheduled = false;
  #closed = false;
  /** What the files hold is not known: nothing is committed until they have been read again. */
  #isStale = false;
  readonly #waitingForIdle = new WaitList();

  constructor(options: GroupCommitOptions) {
    this.#options = options;
    this.#pending = new PendingBytes(options.maxPendingBytes);
    this.#nextSeq = options.store.lastSeq() + 1;
  }

  /** @throws {LogError} */
  async append(records: readonly NewRecord[]): Promise<readonly Position[]> {
    if (this.#closed) throw new LogError("log_closed", "the log is closed");
    if (records.length === 0) return [];
    const prepared = records.map((record) => this.#prepare(record));
    const wholeBytes = prepared.reduce((sum, record) => sum + sizeOf(record), 0);
    const taken = this.#pending.take(records[0]!.topic, wholeBytes);
    if (taken === null) {
      this.#options.metrics.refused("log_full");
      throw new LogError("log_full", "the embedded log has too many appends under way: try again");
    }
    return new Promise((resolve, reject) => {
      const enqueuedAtMs = this.#options.clock.monotonic();
      this.#queue.add({
        kind: "append",
        records: prepared,
        sizeBytes: wholeBytes,
        taken,
        enqueuedAtMs,
        resolve,
        reject,
      });
      this.#schedule();
    });
  }

  /** Resolves once the change is durable. @throws {LogError} */
  async change(make: ChangeJob["make"]): Promise<void> {
    if (this.#closed) throw new LogError("log_closed", "the log is closed");
    return new Promise((resolve, reject) => {
      this.#queue.add({ kind: "change", sizeBytes: 0, records: [], make, resolve, reject });
      this.#schedule();
    });
  }

  /** Takes nothing more, and waits for what was taken. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#closed = true;
    while (this.#flushing || this.#queue.size > 0) await this.#waitingForIdle.wait();
  }

  #prepare(record: NewRecord): PreparedRecord {
    const { streams, maxRecordBytes } = this.#options;
    const keyBytes = Buffer.from(record.key);
    if (record.value.length > maxRecordBytes || keyBytes.length > MAX_KEY_BYTES)
      throw new LogError(
        "log_record_too_large",
        `a record of ${record.value.length} bytes: at most ${maxRecordBytes} fit in the log`,
      );
    const { partitions } = streams;
    const partition = record.partition ?? partitionOf(record.key, partitions);
    if (!Number.isInteger(partition) || partition < 0 || partition >= partitions)
      throw new RangeError(`there is no partition ${partition}: the log has ${partitions}`);
    return { topic: record.topic, partition, keyBytes, value: record.value };
  }

  #schedule(): void {
    if (this.#scheduled || this.#flushing) return;
    this.#scheduled = true;
    // At once when idle; what comes while a commit is under way shares the next one.
    queueMicrotask(() => {
      this.#scheduled = false;
      void this.#flush();
    });
  }

  async #flush(): Promise<void> {
    this.#flushing = true;
    while (this.#queue.size > 0) await this.#commitOnce(this.#queue.take());
    this.#flushing = false;
    this.#waitingForIdle.wakeAll();
  }

  async #commitOnce(jobs: readonly (Append | ChangeJob)[]): Promise<void> {
    const failure = this.#isStale ? await this.#startOver() : null;
    if (failure !== null) {
      this.#refuse(jobs, failure);
      return;
    }
    let written: Written;
    try {
      written = await this.#write(jobs);
    } catch (cause) {
      await this.#failed(jobs, cause);
      return;
    }
    const { appended, positions, nextSeq } = written;
    this.#nextSeq = nextSeq;
    const now = this.#options.clock.monotonic();
    for (const row of appended.rows)
      this.#options.streams.get(row.topic, row.partition).appended(row);
    for (const [index, job] of jobs.entries()) {
      if (job.kind === "change") {
        job.resolve();
        continue;
      }
      this.#pending.giveBack(job.taken);
      this.#options.metrics.appended(job.records.length, (now - job.enqueuedAtMs) / 1000);
      job.resolve(positions[index]!);
    }
    const sizeBytes = appended.blobs.reduce((sum, blob) => sum + blob.bytes.length, 0);
    if (sizeBytes > 0) this.#options.metrics.committed(sizeBytes);
    for (const row of appended.rows) this.#options.streams.get(row.topic, row.partition).notify();
  }

  async #write(jobs: readonly (Append | ChangeJob)[]): Promise<Written> {
    const draft = new Draft(this.#options.streams, this.#options.clock.now());
    const positions = jobs.map((job) => (job.kind === "append" ? draft.add(job.records) : []));
    this.#memory.begin();
    const appended = packCommit(draft.streamRecords(), this.#nextSeq, (sizeBytes) =>
      this.#memory.take(sizeBytes),
    );
    let nextSeq = this.#nextSeq + appended.blobs.length;
    const changes = jobs.flatMap((job) =>
      job.kind === "change" ? [job.make(() => nextSeq++)] : [],
    );
    await this.#options.store.commit(joined(appended, changes));
    return { appended, positions, nextSeq };
  }

  async #failed(jobs: readonly (Append | ChangeJob)[], cause: unknown): Promise<void> {
    const error =
      cause instanceof LogError
        ? cause
        : new LogError("log_unavailable", `the log cannot be written: ${String(cause)}`, { cause });
    this.#refuse(jobs, error);
    const isLockedUp = error instanceof CommitRefused && error.isLockedUp;
    if (error.code === "log_unavailable" && !isLockedUp) return;
    // The outcome is unknown, or LMDB has locked itself up.
    this.#isStale = true;
    await this.#startOver();
  }

  #refuse(jobs: readonly (Append | ChangeJob)[], error: LogError): void {
    this.#options.metrics.refused(error.code);
    for (const job of jobs) {
      if (job.kind === "append") this.#pending.giveBack(job.taken);
      job.reject(error);
    }
  }

  /** Begins again from what is on disk. @returns why that cannot be read now; null if it was */
  async #startOver(): Promise<LogError | null> {
    try {
      await this.#options.store.reopen();
      this.#options.streams.reload();
      this.#nextSeq = this.#options.store.lastSeq() + 1;
      this.#isStale = false;
      return null;
    } catch (reopening) {
      return new LogError("log_unavailable", `the log cannot be opened: ${String(reopening)}`);
    }
  }
}

function joined(appended: PackedCommit, changes: readonly Change[]): StoreCommit {
  const rewritten = changes.map((change) => change.packed ?? EMPTY);
  return {
    packed: {
      blobs: [...appended.blobs, ...rewritten.flatMap((packed) => packed.blobs)],
      rows: [...appended.rows, ...rewritten.flatMap((packed) => packed.rows)],
    },
    groups: changes.flatMap((change) => change.groups ?? []),
    removedBelow: changes.flatMap((change) => change.removedBelow ?? []),
    removedBlobs: changes.flatMap((change) => change.removedBlobs ?? []),
    refs: changes.flatMap((change) => change.refs ?? []),
    starts: changes.flatMap((change) => change.starts ?? []),
  };
}

function sizeOf(record: PreparedRecord): number {
  return RECORD_HEAD_BYTES + record.keyBytes.length + record.value.length;
}
