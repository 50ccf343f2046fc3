import { pause } from "../../../domain/clock.ts";
import type { Clock } from "../../../domain/clock.ts";
import { groupBy } from "../../../domain/group-by.ts";
import type { Topic } from "../../../domain/log.ts";
import type { Logger } from "../../../domain/logger.ts";
import { compactStream } from "./compact-stream.ts";
import type { GroupCommit } from "../commit/group-commit.ts";
import type { GroupStates } from "../groups/group-states.ts";
import type { Row } from "../layout.ts";
import type { LmdbLogMetrics } from "../metrics.ts";
import type { CommitStore } from "../store.ts";
import type { StreamState } from "./stream-state.ts";
import type { StreamTable } from "./stream-table.ts";

/** Most blobs removed in one pass, for which appends have to wait. Passes go blob by blob, so that few are left in part. */
const BLOBS_PER_PASS = 128;
const ROWS_PER_PASS = 4_096;
/**
 * A trim that nobody waits for rests after each pass, this many times as long as the pass took: one pass after the other would
 * delay every append for seconds, if only by some milliseconds each.
 */
const REST = 4;
const ROWS_PER_LOOKUP = 32;
/** Fewer regions than this are not worth rewriting. */
const MIN_COMPACTED_ROWS = 64;
/** What a group reads on the side, and never commits, stays at least this long. */
const UNCOMMITTED_SIDE_RETENTION_MS = 24 * 3_600_000;

export interface TrimmerOptions {
  readonly store: CommitStore;
  readonly streams: StreamTable;
  readonly groups: GroupStates;
  readonly writer: GroupCommit;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: LmdbLogMetrics;
  readonly retentionMs: number;
  /** From the end of one trim to the next, which rests between its passes for about as long at most; 0: only when asked for. */
  readonly intervalMs: number;
}

interface Trimmable {
  readonly stream: StreamState;
  /** Blob of the first row that may go; 0 when that is not known yet. */
  readonly nextSeq: number;
}

/**
 * Frees what is no longer needed: past the commits of every group that gets the topic, and older than the retention.
 * Records that no group has read stay, even if the role that reads them has not run yet: events were answered, and
 * replays, held and delayed tasks are somebody's deliveries.
 * `limits` is never trimmed but compacted: the latest record of every key is always there.
 */
export class Trimmer implements AsyncDisposable {
  readonly #options: TrimmerOptions;
  readonly #compactAtRows = new Map<StreamState, number>();
  #cancel: () => void = () => {};
  #running: Promise<number> | null = null;
  readonly #closing = new AbortController();

  constructor(options: TrimmerOptions) {
    this.#options = options;
    this.#schedule();
  }

  /** Trims at once. @returns regions removed; @throws {LogError} */
  trim(): Promise<number> {
    return this.#trim(() => Promise.resolve());
  }

  #trim(rest: (passMs: number) => Promise<void>): Promise<number> {
    this.#running ??= this.#trimAll(rest).finally(() => {
      this.#running = null;
    });
    return this.#running;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#closing.abort();
    this.#cancel();
    await this.#running?.catch(() => 0);
  }

  #schedule(): void {
    const { clock, intervalMs, logger } = this.#options;
    if (intervalMs === 0 || this.#closed) return;
    this.#cancel = clock.schedule(intervalMs, () => {
      this.#trimAtLeisure()
        .catch((error: unknown) => logger.warn({ err: error }, "log.trim_failed"))
        .finally(() => this.#schedule());
    });
  }

  #trimAtLeisure(): Promise<number> {
    const { clock, intervalMs } = this.#options;
    const inTimeUntilMs = clock.monotonic() + intervalMs;
    return this.#trim(async (passMs) => {
      if (clock.monotonic() < inTimeUntilMs)
        await pause(clock, passMs * REST, this.#closing.signal);
    });
  }

  async #trimAll(rest: (passMs: number) => Promise<void>): Promise<number> {
    const { clock } = this.#options;
    let trimmed = 0;
    let left = this.#trimmable();
    while (left.length > 0 && !this.#closed) {
      const startedMs = clock.monotonic();
      const oldest = left.reduce((least, { nextSeq }) => Math.min(least, nextSeq), Infinity);
      const rows: Row[] = [];
      left = left.flatMap((one) => this.#take(one, oldest + BLOBS_PER_PASS, rows));
      if (rows.length > 0) await this.#remove(rows);
      trimmed += rows.length;
      if (left.length > 0) await rest(clock.monotonic() - startedMs);
    }
    for (const stream of this.#options.streams.all())
      if (stream.topic === "limits" && !this.#closed) await this.#compact(stream);
    if (trimmed > 0) this.#options.metrics.trimmed(trimmed);
    return trimmed;
  }

  get #closed(): boolean {
    return this.#closing.signal.aborted;
  }

  async #compact(stream: StreamState): Promise<void> {
    const { store, writer } = this.#options;
    const minRows = this.#compactAtRows.get(stream) ?? MIN_COMPACTED_ROWS;
    const rowsLeft = await compactStream(store, writer, stream, minRows);
    // Not again before as much has been added: compaction costs as much as is kept.
    if (rowsLeft !== null)
      this.#compactAtRows.set(stream, Math.max(MIN_COMPACTED_ROWS, rowsLeft * 2));
  }

  #trimmable(): Trimmable[] {
    return [...this.#options.streams.all()].flatMap((stream) => {
      const { topic, partition, startOffset, endOffset } = stream;
      if (topic === "limits" || startOffset === endOffset) return [];
      const { belowOffset } = this.#trimBounds(topic, partition);
      return belowOffset <= startOffset ? [] : [{ stream, nextSeq: 0 }];
    });
  }

  /** Adds the rows that may go, and are in blobs below `belowSeq`, to `rows`. @returns what is left for a later pass, if anything */
  #take(one: Trimmable, belowSeq: number, rows: Row[]): readonly Trimmable[] {
    const { stream, nextSeq } = one;
    if (nextSeq >= belowSeq) return [one];
    // Looked up for each pass: a group may have registered since.
    const { belowOffset, beforeMs } = this.#trimBounds(stream.topic, stream.partition);
    let offset = stream.startOffset;
    while (rows.length < ROWS_PER_PASS) {
      const found = this.#options.store.rowsFrom(stream, offset, ROWS_PER_LOOKUP);
      for (const row of found) {
        if (row.next > belowOffset || row.lastAppendedAtMs >= beforeMs) return [];
        if (row.seq >= belowSeq) return [{ ...one, nextSeq: row.seq }];
        rows.push(row);
        offset = row.next;
      }
      if (found.length < ROWS_PER_LOOKUP) return [];
    }
    return [one];
  }

  /** Returns which records of the stream may go: those below the offset that were appended before the time. */
  #trimBounds(topic: Topic, partition: number): { belowOffset: number; beforeMs: number } {
    const { groups, clock, retentionMs } = this.#options;
    const { groups: subscribers, sideGroups } = groups.subscribers(topic);
    // No group gets the records of `held`: their owner reads them on the side, and commits.
    const readers = subscribers.length === 0 ? sideGroups : subscribers;
    let belowOffset = readers.length === 0 ? 0 : Infinity;
    let keepMs = retentionMs;
    for (const group of readers)
      belowOffset = Math.min(belowOffset, groups.committed(group, topic, partition)?.offset ?? 0);
    for (const group of sideGroups) {
      const committed = groups.committed(group, topic, partition);
      if (committed === null) keepMs = Math.max(keepMs, UNCOMMITTED_SIDE_RETENTION_MS);
      else belowOffset = Math.min(belowOffset, committed.offset);
    }
    return { belowOffset, beforeMs: clock.now() - keepMs };
  }

  async #remove(rows: readonly Row[]): Promise<void> {
    const { store, streams, writer } = this.#options;
    const starts = new Map<StreamState, number>();
    for (const row of rows) starts.set(streams.get(row.topic, row.partition), row.next);
    const removedBlobs: number[] = [];
    const refs: [number, number][] = [];
    for (const [seq, removed] of groupBy(rows, (row) => row.seq)) {
      const left = (store.refs(seq) ?? removed[0]!.regionsInBlob) - removed.length;
      if (left <= 0) removedBlobs.push(seq);
      else refs.push([seq, left]);
    }
    const ends = [...starts];
    await writer.change(() => ({ removedBelow: ends, removedBlobs, refs, starts: ends }));
    for (const [stream, offset] of starts) {
      stream.startOffset = offset;
      stream.forgetBelow(offset);
    }
  }
}
